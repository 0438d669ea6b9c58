#include "server/api/decoder_option.h"

#include "server/api/app.h"
#include "server/http/status.h"

#include <string.h>

bool convoy_decoder_option(struct convoy_request *request, enum convoy_image_decoder *decoder)
{
    size_t length;
    bool present;
    const char *value = convoy_request_query(request, "decoder", &length, &present);

    *decoder = convoy_app_of(request)->config->images.decoder;
    if (!present)
        return true;
    for (unsigned i = 0; convoy_image_decoder_texts[i] != NULL; i++)
        if (strlen(convoy_image_decoder_texts[i]) == length &&
            memcmp(convoy_image_decoder_texts[i], value, length) == 0) {
            *decoder = (enum convoy_image_decoder)i;
            return true;
        }
    convoy_fail(&request->refusal_reason, 0, "decoder must be auto, cpu, gpu or fastest");
    return convoy_request_refuse(request, CONVOY_HTTP_BAD_REQUEST);
}
