/* SPDX-License-Identifier: MIT */
#include "logistic.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ITERATIONS = 100, MAX_HALVINGS = 40 };

/* ---- linear algebra -------------------------------------------------------------------------------------- */

static double dot(const double *a, const double *b, int n)
{
    double s = 0;

    for (int i = 0; i < n; i++)
        s += a[i] * b[i];
    return s;
}

/* a [n][n] = L, of which a = L L'.  Where a row depends on those before it, its diagonal in L is 0. */
static void cholesky(double *a, int n)
{
    double largest = 0;

    for (int i = 0; i < n; i++)
        largest = fmax(largest, a[(size_t)i * (size_t)n + (size_t)i]);
    for (int i = 0; i < n; i++) {
        double *row = a + (size_t)i * (size_t)n;

        for (int j = 0; j < i; j++) {
            const double *other = a + (size_t)j * (size_t)n;

            row[j] = other[j] > 0 ? (row[j] - dot(row, other, j)) / other[j] : 0;
        }
        row[i] -= dot(row, row, i);
        row[i] = row[i] > 1e-12 * largest ? sqrt(row[i]) : 0;
        memset(row + i + 1, 0, (size_t)(n - i - 1) * sizeof *row);
    }
}

/* x = the solution of L' x = b, in place; 0 where L's diagonal is 0. */
static void solve_upper(double *x, const double *l, int n)
{
    for (int i = n - 1; i >= 0; i--) {
        const double *row = l + (size_t)i * (size_t)n;

        x[i] = row[i] > 0 ? x[i] / row[i] : 0;
        for (int j = 0; j < i; j++)
            x[j] -= row[j] * x[i];
    }
}

static void solve_lower(double *x, const double *l, int n)
{
    for (int i = 0; i < n; i++) {
        const double *row = l + (size_t)i * (size_t)n;

        x[i] = row[i] > 0 ? (x[i] - dot(row, x, i)) / row[i] : 0;
    }
}

/* ---- the fit ------------------------------------------------------------------------------------------------- */

/* log(1 + exp(-m)) without overflow */
static double loss_of(double m)
{
    return m > 0 ? log1p(exp(-m)) : -m + log1p(exp(m));
}

typedef struct problem {
    const double *x;
    const bool *yes, *use;
    int n, d;
    double penalty, weight[2]; /* of a row that is not, is */
} problem;

static bool used(const problem *p, int i)
{
    return !p->use || p->use[i];
}

/* v: [d], then the bias. */
static double objective(const problem *p, const double *v)
{
    double sum = p->penalty / 2 * dot(v, v, p->d);

    for (int i = 0; i < p->n; i++)
        if (used(p, i)) {
            const double f = dot(p->x + (size_t)i * (size_t)p->d, v, p->d) + v[p->d];

            sum += p->weight[p->yes[i]] * loss_of(p->yes[i] ? f : -f);
        }
    return sum;
}

/* The gradient [d + 1], and the lower half of the Hessian. */
static void derive(const problem *p, const double *v, double *gradient, double *hessian)
{
    const size_t m = (size_t)p->d + 1;

    memset(hessian, 0, m * m * sizeof *hessian);
    for (size_t k = 0; k < m; k++) {
        gradient[k] = k < m - 1 ? p->penalty * v[k] : 0;
        hessian[k * m + k] = k < m - 1 ? p->penalty : 0;
    }
    for (int i = 0; i < p->n; i++) {
        const double *x = p->x + (size_t)i * (size_t)p->d;
        double f, share, g, h;

        if (!used(p, i))
            continue;
        f = dot(x, v, p->d) + v[p->d];
        share = 1 / (1 + exp(-f)); /* exp may be infinite: then it is 0 */
        g = p->weight[p->yes[i]] * (share - p->yes[i]);
        h = p->weight[p->yes[i]] * share * (1 - share);
        for (size_t k = 0; k < m; k++) {
            const double at = k < m - 1 ? x[k] : 1;

            gradient[k] += g * at;
            for (size_t j = 0; j <= k; j++)
                hessian[k * m + j] += h * at * (j < m - 1 ? x[j] : 1);
        }
    }
}

zn_status zn_logistic_fit(double *w, double *bias, const double *x, const bool *yes, const bool *use, int n, int d,
                          double penalty, zn_error *err)
{
    const size_t m = (size_t)d + 1;
    problem p = { x, yes, use, n, d, penalty, { 0, 0 } };
    double *v = calloc(4 * m + m * m, sizeof *v), *gradient, *step, *next, *hessian, now;
    int count[2] = { 0, 0 };

    if (!v)
        return zn_fail(err, ZN_E_MEMORY, "there is not enough memory to fit %d pictures", n);
    gradient = v + m;
    step = v + 2 * m;
    next = v + 3 * m;
    hessian = v + 4 * m;
    for (int i = 0; i < n; i++)
        if (used(&p, i))
            count[yes[i]]++;
    if (!count[0] || !count[1]) {
        free(v);
        return zn_fail(err, ZN_E_USAGE, "there are no pictures on one of the two sides");
    }
    for (int k = 0; k < 2; k++)
        p.weight[k] = 0.5 / count[k];
    now = objective(&p, v);
    for (int t = 0; t < MAX_ITERATIONS; t++) {
        double slope, length = 1, then = now;

        derive(&p, v, gradient, hessian);
        cholesky(hessian, (int)m);
        memcpy(step, gradient, m * sizeof *step);
        solve_lower(step, hessian, (int)m);
        solve_upper(step, hessian, (int)m);
        slope = dot(gradient, step, (int)m);
        if (slope < 1e-14) { /* the objective cannot show the rest, but the step is good */
            for (size_t i = 0; i < m; i++)
                v[i] -= step[i];
            break;
        }
        for (int k = 0; k < MAX_HALVINGS; k++, length /= 2) {
            for (size_t i = 0; i < m; i++)
                next[i] = v[i] - length * step[i];
            then = objective(&p, next);
            if (then <= now - 1e-4 * length * slope)
                break;
        }
        if (!(then < now))
            break;
        memcpy(v, next, m * sizeof *v);
        now = then;
    }
    memcpy(w, v, (size_t)d * sizeof *w);
    *bias = v[d];
    free(v);
    return ZN_OK;
}

void zn_logistic_embed(double *points, const double *x, int n, int d)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++)
            points[(size_t)i * (size_t)n + (size_t)j] = dot(x + (size_t)i * (size_t)d, x + (size_t)j * (size_t)d, d);
    cholesky(points, n);
}

bool zn_logistic_expand(double *w, const double *v, const double *points, const double *x, int n, int d)
{
    double *a = malloc((size_t)n * sizeof *a);

    if (!a)
        return false;
    memcpy(a, v, (size_t)n * sizeof *a);
    solve_upper(a, points, n); /* w = X' L'^-1 v: then X w = L L' L'^-1 v */
    for (int k = 0; k < d; k++) {
        w[k] = 0;
        for (int i = 0; i < n; i++)
            w[k] += a[i] * x[(size_t)i * (size_t)d + (size_t)k];
    }
    free(a);
    return true;
}

/* ---- how well it separates ------------------------------------------------------------------------------------- */

double zn_auroc(const double *score, const bool *yes, int n)
{
    double right = 0, pairs = 0;

    for (int i = 0; i < n; i++)
        for (int j = 0; yes[i] && j < n; j++)
            if (!yes[j]) {
                right += score[i] > score[j] ? 1 : score[i] == score[j] ? 0.5 : 0;
                pairs++;
            }
    return pairs > 0 ? right / pairs : 0.5;
}

double zn_auroc_error(double auroc, int n_yes, int n_no)
{
    const double a = fmin(auroc, 1 - 0.5 / ((double)n_yes * n_no));
    const double q1 = a / (2 - a), q2 = 2 * a * a / (1 + a);

    return sqrt((a * (1 - a) + (n_yes - 1) * (q1 - a * a) + (n_no - 1) * (q2 - a * a)) / ((double)n_yes * n_no));
}

zn_status zn_logistic_cross(double *score, const double *x, const bool *yes, int n, int d, double penalty, int parts,
                            zn_error *err)
{
    bool *use = malloc((size_t)n * sizeof *use);
    int *part = malloc((size_t)n * sizeof *part), count[2] = { 0, 0 }, seen[2] = { 0, 0 };
    double *w = malloc((size_t)d * sizeof *w), bias;
    zn_status s =
        use && part && w ? ZN_OK : zn_fail(err, ZN_E_MEMORY, "there is not enough memory to fit %d pictures", n);

    for (int i = 0; !s && i < n; i++)
        count[yes[i]]++;
    for (int i = 0; !s && i < n; i++)
        part[i] = (int)((int64_t)seen[yes[i]]++ * parts / count[yes[i]]);
    for (int k = 0; !s && k < parts; k++) {
        for (int i = 0; i < n; i++)
            use[i] = part[i] != k;
        s = zn_logistic_fit(w, &bias, x, yes, use, n, d, penalty, err);
        for (int i = 0; !s && i < n; i++)
            if (!use[i])
                score[i] = dot(x + (size_t)i * (size_t)d, w, d) + bias;
    }
    free(use);
    free(part);
    free(w);
    return s;
}
