/* SPDX-License-Identifier: MIT */
/* schedule.c - see schedule.h. */
#include "schedule.h"

#include <math.h>

void zn_abar(double *abar, int n, double first, double last)
{
    double product = 1;

    for (int i = 0; i < n; i++) {
        product *= 1 - (first + (n > 1 ? (last - first) * i / (n - 1) : 0));
        abar[i] = product;
    }
}

int zn_stride(int total, int steps)
{
    for (int stride = 1; stride <= total; stride++)
        if ((total + stride - 1) / stride == steps)
            return stride;
    return 0;
}

static void set_row(float row[ZN_STEP_COEFS], const double c[ZN_STEP_COEFS])
{
    for (int i = 0; i < ZN_STEP_COEFS; i++)
        row[i] = (float)c[i];
}

bool zn_schedule_ddim(zn_schedule *s, const double *abar, int total, int steps, zn_prediction p, bool reverse)
{
    const int stride = zn_stride(total, steps);

    if (steps < 1 || steps > ZN_MAX_STEPS || !stride)
        return false;
    s->n = steps;
    for (int i = 0; i < steps; i++) {
        const int k = reverse ? i : steps - 1 - i, next = reverse ? k + 1 : k - 1;
        const double a = abar[k * stride], to = next < 0 ? 1 : next == steps ? 0 : abar[next * stride];
        const double x = p == ZN_PREDICTS_V ? sqrt(a) : 1 / sqrt(a),
                     e = p == ZN_PREDICTS_V ? -sqrt(1 - a) : -sqrt(1 / a - 1);

        s->t[i] = (float)(k * stride);
        set_row(s->coefs[i], (const double[]){ x, e, 1 / sqrt(1 - a), -sqrt(a / (1 - a)), sqrt(to), sqrt(1 - to) });
        set_row(s->preview[i], (const double[]){ x, e, 0, 0, 1, 0 });
    }
    return true;
}

bool zn_schedule_flow(zn_schedule *s, int steps, double shift, int sign)
{
    if (steps < 1 || steps > ZN_MAX_STEPS || !(shift > 0))
        return false;
    s->n = steps;
    for (int i = 0; i < steps; i++) {
        const double u = 1 - (double)i / steps, v = 1 - (double)(i + 1) / steps;
        const double sigma = shift * u / (1 + (shift - 1) * u),
                     to = i + 1 < steps ? shift * v / (1 + (shift - 1) * v) : 0;

        s->t[i] = (float)sigma;
        set_row(s->coefs[i], (const double[]){ 0, 1, 1, 0, sign * (to - sigma), 1 });
        set_row(s->preview[i], (const double[]){ 1, -sign * sigma, 0, 0, 1, 0 });
    }
    return true;
}
