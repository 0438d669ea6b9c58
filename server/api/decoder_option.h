/* Who decodes a request's JPEG files: images.decoder, or what its query says. */
#ifndef CONVOY_SERVER_DECODER_OPTION_H
#define CONVOY_SERVER_DECODER_OPTION_H

#include "server/config/config.h"
#include "server/http/request.h"

/* Reads ?decoder=; without it the configuration's. False with refusal set: it is none of the known. On the
 * HTTP thread. */
bool convoy_decoder_option(struct convoy_request *request, enum convoy_image_decoder *decoder);

#endif
