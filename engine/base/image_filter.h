/* The filters that images are resized with, as Pillow defines them: for the front and for devices that
 * resize.
 *
 * x is the distance from the centre of an output pixel, in source pixels when enlarging, in output pixels
 * when shrinking (P. Heckbert, "Filtered resampling", Graphics Gems III).
 *   bilinear  1 - |x|                                                          up to 1
 *   bicubic   R. Keys's convolution with a = -0.5 (IEEE Trans. ASSP 29, 1981)  up to 2
 *   lanczos   sinc(x) sinc(x / 3)                                              up to 3
 * CONVOY_FILTER_NEAREST is none of these: it has no weights. */
#ifndef CONVOY_ENGINE_BASE_IMAGE_FILTER_H
#define CONVOY_ENGINE_BASE_IMAGE_FILTER_H

/* The numbers go to workers, with what a model's configuration says. */
enum convoy_image_filter {
    CONVOY_FILTER_BILINEAR,
    CONVOY_FILTER_BICUBIC,
    CONVOY_FILTER_LANCZOS,
    CONVOY_FILTER_NEAREST
};

/* The largest |x| with a weight. */
double convoy_filter_reach(enum convoy_image_filter filter);
double convoy_filter_weight(enum convoy_image_filter filter, double x);

#endif
