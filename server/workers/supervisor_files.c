#include "server/workers/supervisor_internal.h"

bool convoy_files_wanted(const struct convoy_supervisor *supervisor)
{
    return supervisor->config->images.decoder != CONVOY_IMAGE_DECODER_CPU;
}

enum convoy_load_files convoy_files_of(const struct device_worker *worker)
{
    const struct convoy_supervisor *supervisor = worker->supervisor;
    if (!convoy_files_wanted(supervisor) || !convoy_heartbeat_decodes(worker))
        return CONVOY_LOAD_NO_FILES;
    return supervisor->config->images.decoder == CONVOY_IMAGE_DECODER_GPU ? CONVOY_LOAD_FILES_FIRST
                                                                          : CONVOY_LOAD_FILES;
}

void convoy_files_count_takers(struct convoy_supervisor *supervisor, struct convoy_model_record *model)
{
    bool takes = convoy_files_wanted(supervisor), loaded = false;
    for (uint32_t i = 0; i < supervisor->worker_count; i++) {
        const struct kept_answer *kept = &supervisor->workers[i]->kept[model->number];
        takes = takes && (!kept->loaded || kept->takes_files);
        loaded = loaded || kept->loaded;
    }
    takes = takes && loaded;
    atomic_store(&model->takes_files, takes);
    convoy_batcher_model_files(supervisor->batcher, model, takes);
}
