#include "client/stats/calibration.h"

#include <math.h>

void client_calibration_count(struct client_calibration *calibration, double probability, bool right)
{
    if (!(probability >= 0 && probability <= 1)) {
        calibration->without++;
        return;
    }
    /* A tenth in decimal is not one in binary: (0.1 + 0.2) * 10 is slightly more than 3. */
    double place = ceil(probability * CLIENT_CALIBRATION_BINS - 1e-9) - 1;
    struct client_calibration_bin *bin = &calibration->bins[place > 0 ? (size_t)place : 0];
    bin->count++;
    bin->right += right;
    bin->sum += probability;
}

size_t client_calibration_total(const struct client_calibration *calibration)
{
    size_t total = 0;
    for (size_t i = 0; i < CLIENT_CALIBRATION_BINS; i++)
        total += calibration->bins[i].count;
    return total;
}

double client_calibration_error(const struct client_calibration *calibration)
{
    double distance = 0, total = (double)client_calibration_total(calibration);
    for (size_t i = 0; i < CLIENT_CALIBRATION_BINS; i++)
        distance += fabs((double)calibration->bins[i].right - calibration->bins[i].sum);
    return total > 0 ? distance / total : NAN;
}
