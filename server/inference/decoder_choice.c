#include "server/inference/decoder_choice.h"

bool convoy_decoder_choice_open(const struct convoy_decoder_choice *choice)
{
    return choice->takes_files && choice->decoder != CONVOY_IMAGE_DECODER_CPU;
}

bool convoy_decoder_choice_device(const struct convoy_decoder_choice *choice,
                                  const struct convoy_jpeg_header *file, size_t length)
{
    uint64_t pixels = (uint64_t)file->width * file->height;

    if (!convoy_decoder_choice_open(choice) || pixels > choice->max_pixels ||
        pixels > CONVOY_DECODER_MOST_PIXELS || length > choice->file_bytes)
        return false;
    switch (choice->decoder) {
    case CONVOY_IMAGE_DECODER_GPU:
        return true;
    case CONVOY_IMAGE_DECODER_FASTEST:
        return choice->busy && pixels >= CONVOY_DECODER_LEAST_PIXELS;
    default:
        return pixels >= CONVOY_DECODER_LEAST_PIXELS;
    }
}
