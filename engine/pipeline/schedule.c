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

/* Step i: at time t, from A = a to A' = to. */
static void set_step(zn_schedule *s, int i, int t, double a, double to, zn_prediction p, double eta)
{
    const double x = p == ZN_PREDICTS_X0 ? 0
        : p == ZN_PREDICTS_V             ? sqrt(a)
                                         : 1 / sqrt(a),
                 e = p == ZN_PREDICTS_X0 ? 1
        : p == ZN_PREDICTS_V             ? -sqrt(1 - a)
                                         : -sqrt(1 / a - 1);
    const double r = sqrt((1 - to) / (1 - a)), noise = eta > 0 ? eta * r * sqrt(1 - a / to) : 0;

    s->t[i] = (float)t;
    s->noise[i] = (float)noise;
    set_row(
        s->coefs[i],
        (const double[]){ x, e, 1 / sqrt(1 - a), -sqrt(a / (1 - a)), sqrt(to), sqrt(fmax(1 - to - noise * noise, 0)) });
    set_row(s->preview[i], (const double[]){ x, e, 0, 0, 1, 0 });
    s->multistep[i][0] = (float)r;
    s->multistep[i][1] = (float)(sqrt(to) - r * sqrt(a));
    s->multistep[i][2] = 0;
}

bool zn_schedule_ddim(zn_schedule *s, const double *abar, int total, int steps, zn_prediction p, bool reverse,
                      double eta)
{
    const int stride = zn_stride(total, steps);

    if (steps < 1 || steps > ZN_MAX_STEPS || !stride)
        return false;
    s->n = steps;
    s->second_order = false;
    for (int i = 0; i < steps; i++) {
        const int k = reverse ? i : steps - 1 - i, next = reverse ? k + 1 : k - 1;

        set_step(s, i, k * stride, abar[k * stride],
                 next < 0            ? 1
                     : next == steps ? 0
                                     : abar[next * stride],
                 p, reverse ? 0 : eta);
    }
    return true;
}

/* Half the logarithm of the signal-to-noise ratio. */
static double lambda(double a)
{
    return 0.5 * log(a / (1 - a));
}

bool zn_schedule_squared(zn_schedule *s, const double *abar, int total, int steps, zn_prediction p, bool reverse)
{
    int time[ZN_MAX_STEPS];
    double before = 0; /* the last step's difference of lambda; 0: there is none */

    if (steps < (reverse ? 2 : 1) || steps > ZN_MAX_STEPS || steps > total)
        return false;
    for (int k = 0; k < steps; k++) {
        const double u = steps > 1 ? (double)k / (steps - 1) : 1;

        time[k] = (int)rint((total - 1) * u * u);
        if (k && time[k] <= time[k - 1])
            time[k] = time[k - 1] + 1;
    }
    s->n = reverse ? steps - 1 : steps;
    s->second_order = true;
    for (int i = 0; i < s->n; i++) {
        const int k = reverse ? i : steps - 1 - i, next = reverse ? k + 1 : k - 1;
        const double a = abar[time[k]], to = next < 0 ? 1 : abar[time[next]];
        const double q = sqrt(to) - sqrt((1 - to) / (1 - a)) * sqrt(a);
        const double h = to < 1 ? lambda(to) - lambda(a) : 0, w = to < 1 && before != 0 ? h / (2 * before) : 0;

        set_step(s, i, time[k], a, to, p, 0);
        s->multistep[i][1] = (float)(q * (1 + w));
        s->multistep[i][2] = (float)(-q * w);
        before = h;
    }
    return true;
}

bool zn_schedule_flow(zn_schedule *s, int steps, double shift, double from, int sign)
{
    if (steps < 1 || steps > ZN_MAX_STEPS || !(shift > 0) || !(from > 0 && from <= 1))
        return false;
    s->n = (int)rint(steps * from);
    s->n = s->n > 1 ? s->n : 1;
    s->second_order = false;
    for (int i = 0; i < s->n; i++) {
        const double u = from * (s->n - i) / s->n, v = from * (s->n - i - 1) / s->n;
        const double sigma = shift * u / (1 + (shift - 1) * u), to = shift * v / (1 + (shift - 1) * v);

        s->t[i] = (float)sigma;
        s->noise[i] = 0;
        set_row(s->coefs[i], (const double[]){ 0, 1, 1, 0, sign * (to - sigma), 1 });
        set_row(s->preview[i], (const double[]){ 1, -sign * sigma, 0, 0, 1, 0 });
    }
    return true;
}
