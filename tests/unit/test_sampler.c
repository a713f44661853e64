/* SPDX-License-Identifier: MIT */
/* test_sampler.c - schedules, noise and the sampler's loop, against the formulas written out in double precision.
 *
 * The loop runs on the scalar backend behind a table that records and replays as a GPU does: a recorded forward repeats
 * its operations with the addresses and constants that it had. */
#include "test.h"

#include "core/random.h"
#include "pipeline/request.h"
#include "pipeline/sampler.h"

#include <math.h>
#include <stdlib.h>

/* ---- schedules ------------------------------------------------------------------------------------------------- */

static double far_off(double got, double want)
{
    return fabs(got - want) / fmax(1, fabs(want));
}

static void betas(void)
{
    double abar[1000], product = 1;

    zn_abar(abar, 1000, 1e-4, 0.02);
    for (int i = 0; i < 1000; i++) {
        product *= 1 - (1e-4 + i * (0.02 - 1e-4) / 999);
        CHECK(far_off(abar[i], product) < 1e-14, "linear, step %d: %.17g, not %.17g", i, abar[i], product);
    }
    CHECK(fabs(abar[999] - 4.0358e-5) < 1e-9, "the last one is %.9g", abar[999]);
    zn_abar(abar, 1000, 0.008, 0.008);
    CHECK(far_off(abar[0], 0.992) < 1e-15 && far_off(abar[999] / pow(0.992, 1000), 1) < 1e-11, "constant");
}

static void strides(void)
{
    static const int want[][2] = { { 20, 50 }, { 100, 10 }, { 250, 4 },  { 200, 5 },  { 50, 20 }, { 125, 8 },
                                   { 500, 2 }, { 10, 100 }, { 1000, 1 }, { 1, 1000 }, { 7, 143 } };

    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        CHECK(zn_stride(1000, want[i][0]) == want[i][1], "%d steps: every %d", want[i][0], zn_stride(1000, want[i][0]));
    CHECK(!zn_stride(1000, 300) && !zn_stride(1000, 1001) && !zn_stride(1000, 0), "a number that has no stride");
}

/* One step as the specification writes it; p: the prediction. */
static double ddim(double x, double p, double a, double to, int prediction, double clip)
{
    double x0 = prediction == ZN_PREDICTS_X0 ? p
        : prediction == ZN_PREDICTS_V        ? sqrt(a) * x - sqrt(1 - a) * p
                                             : x / sqrt(a) - sqrt(1 / a - 1) * p,
           e;

    x0 = clip > 0 ? fmin(fmax(x0, -clip), clip) : x0;
    e = (x / sqrt(a) - x0) / sqrt(1 / a - 1);
    return x0 * sqrt(to) + sqrt(1 - to) * e;
}

/* The same with a row of coefficients. */
static double step(double x, double p, const float *c, double clip)
{
    double x0 = c[0] * x + c[1] * p;

    x0 = clip > 0 ? fmin(fmax(x0, -clip), clip) : x0;
    return c[4] * x0 + c[5] * (c[2] * x + c[3] * x0);
}

static zn_schedule schedule; /* too large for a stack that is checked */

static void diffusion_steps(void)
{
    double abar[1000];

    zn_abar(abar, 1000, 1e-4, 0.02);
    for (int reverse = 0; reverse < 2; reverse++)
        for (int v = 0; v < ZN_N_PREDICTIONS; v++) {
            CHECK(zn_schedule_ddim(&schedule, abar, 1000, 20, (zn_prediction)v, reverse, 0), "refused");
            for (int i = 0; i < 20; i++) {
                const int k = reverse ? i : 19 - i;
                const double a = abar[50 * k],
                             to = reverse ? k == 19 ? 0 : abar[50 * k + 50]
                    : k ? abar[50 * k - 50]
                                          : 1;

                CHECK(schedule.t[i] == (float)(50 * k), "step %d is at %g", i, (double)schedule.t[i]);
                for (int j = 0; j < 9; j++) {
                    const double x = 0.4 * (j % 3 - 1) + 0.1, p = 0.7 * (j / 3 - 1), clip = j & 1;

                    CHECK(far_off(step(x, p, schedule.coefs[i], clip), ddim(x, p, a, to, v, clip)) < 2e-5,
                          "reverse %d, prediction %d, step %d: %g, not %g", reverse, v, i,
                          step(x, p, schedule.coefs[i], clip), ddim(x, p, a, to, v, clip));
                    CHECK(far_off(step(x, p, schedule.preview[i], clip), ddim(x, p, a, 1, v, clip)) < 2e-5,
                          "the estimate at step %d", i);
                }
            }
        }
    CHECK(!zn_schedule_ddim(&schedule, abar, 1000, 300, ZN_PREDICTS_NOISE, false, 0), "300 steps were taken");
}

/* With eta 1, mean and deviation of a step are those of DDPM's posterior; with less, the variance that is left is the same. */
static void ancestral_steps(void)
{
    double abar[1000];

    zn_abar(abar, 1000, 1e-4, 0.02);
    for (int v = 0; v < ZN_N_PREDICTIONS; v++) {
        CHECK(zn_schedule_ddim(&schedule, abar, 1000, 100, (zn_prediction)v, false, 1), "refused");
        for (int i = 0; i < 100; i++) {
            const int k = 99 - i;
            const double a = abar[10 * k], to = k ? abar[10 * k - 10] : 1, alpha = a / to;

            for (int j = 0; j < 9; j++) {
                const double x = 0.4 * (j % 3 - 1) + 0.1, p = 0.7 * (j / 3 - 1), x0 = ddim(x, p, a, 1, v, 1);
                const double mean = sqrt(to) * (1 - alpha) / (1 - a) * x0 + sqrt(alpha) * (1 - to) / (1 - a) * x;

                CHECK(far_off(step(x, p, schedule.coefs[i], 1), mean) < 2e-5, "prediction %d, step %d: %g, not %g", v,
                      i, step(x, p, schedule.coefs[i], 1), mean);
            }
            CHECK(fabs((double)schedule.noise[i] - sqrt((1 - alpha) * (1 - to) / (1 - a))) < 1e-6, "step %d adds %g", i,
                  (double)schedule.noise[i]);
        }
    }
    CHECK(zn_schedule_ddim(&schedule, abar, 1000, 100, ZN_PREDICTS_V, false, 0.5), "refused");
    for (int i = 0; i < 100; i++) {
        const double c = (double)schedule.coefs[i][5], n = (double)schedule.noise[i],
                     to = i < 99 ? abar[980 - 10 * i] : 1;

        CHECK(fabs(c * c + n * n - (1 - to)) < 1e-6, "step %d leaves a variance of %g", i, c * c + n * n);
    }
}

static void flow_steps(void)
{
    static const double want[] = { 1, .954545, .9, .833333, .75, .642857, .5, .3, 0 };

    CHECK(zn_schedule_flow(&schedule, 8, 3, 1, -1) && schedule.n == 8, "refused");
    for (int i = 0; i < 8; i++) {
        CHECK(fabs((double)schedule.t[i] - want[i]) < 1e-6, "sigma %d is %g", i, (double)schedule.t[i]);
        CHECK(fabs(step(0.3, 0.5, schedule.coefs[i], 0) - (0.3 - (want[i + 1] - want[i]) * 0.5)) < 1e-6, "step %d", i);
        CHECK(fabs(step(0.3, 0.5, schedule.preview[i], 0) - (0.3 + want[i] * 0.5)) < 1e-6, "the estimate at step %d",
              i);
    }
    CHECK(!zn_schedule_flow(&schedule, 0, 3, 1, 1) && !zn_schedule_flow(&schedule, 1001, 3, 1, 1), "no steps");
    CHECK(!zn_schedule_flow(&schedule, 8, 3, 0, 1) && !zn_schedule_flow(&schedule, 8, 3, 1.01, 1), "no start");

    /* From the middle: the last steps of the whole schedule; from between two steps, as many, a little shorter. */
    CHECK(zn_schedule_flow(&schedule, 8, 3, 0.375, -1) && schedule.n == 3, "%d steps of 3", schedule.n);
    for (int i = 0; i < 3; i++)
        CHECK(fabs((double)schedule.t[i] - want[i + 5]) < 1e-6 &&
                  fabs((double)schedule.coefs[i][4] + want[i + 6] - want[i + 5]) < 1e-6,
              "step %d from the middle begins at %g", i, (double)schedule.t[i]);
    CHECK(zn_schedule_flow(&schedule, 8, 3, 0.35, -1) && schedule.n == 3 &&
              fabs((double)schedule.t[0] - 3 * 0.35 / 1.7) < 1e-6,
          "%d steps from sigma %g", schedule.n, (double)schedule.t[0]);
    CHECK(zn_schedule_flow(&schedule, 8, 3, 0.01, -1) && schedule.n == 1, "%d steps of 1", schedule.n);
}

/* ---- noise -------------------------------------------------------------------------------------------------------- */

static void noise_from_a_seed(void)
{
    static const double known[] = { -2.2139675800885521, -1.5604002347475596, -0.44925507844474249,
                                    0.74189812533100508 }; /* a picture's seed must mean the same for ever */
    enum { N = 100000 };
    double sum = 0, squares = 0, beyond = 0, together = 0, before = 0;

    for (int i = 0; i < 4; i++)
        CHECK(fabs(zn_normal(7, 0, (uint64_t)i) - known[i]) < 1e-14, "value %d is %.17g", i,
              zn_normal(7, 0, (uint64_t)i));
    for (int i = 0; i < N; i++) {
        const double x = zn_normal(3, 0, (uint64_t)i);

        sum += x;
        squares += x * x;
        together += x * before;
        beyond += fabs(x) > 1.959964;
        before = x;
    }
    /* Four standard deviations of each estimate. */
    CHECK(fabs(sum / N) < 4 / sqrt(N) && fabs(squares / N - 1) < 4 * sqrt(2.0 / N) &&
              fabs(together / N) < 4 / sqrt(N) && fabs(beyond / N - 0.05) < 4 * sqrt(0.05 * 0.95 / N),
          "mean %g, variance %g, %g beyond 1.96, %g with its neighbour", sum / N, squares / N, beyond / N,
          together / N);
}

/* ---- a backend that records --------------------------------------------------------------------------------------- */

enum { MAX_OPS = 64, MAX_KEYS = 8 };

typedef struct call { /* of map or binary */
    bool is_map;
    zn_tensor y, a, b;
    zn_binary op;
    zn_tail tail;
} call;

static struct {
    uint64_t key;
    int seen, n;
    call ops[MAX_OPS];
} kept[MAX_KEYS];
static int n_keys, recording = -1;
static int n_replays, n_forwards, n_syncs, n_loads;
static zn_backend table;

static void do_call(void *dev, const call *c)
{
    if (c->is_map)
        zn_backend_scalar.map(dev, c->y, c->a, c->tail);
    else
        zn_backend_scalar.binary(dev, c->y, c->a, c->b, c->op, c->tail);
}

static void take_call(void *dev, call c)
{
    if (recording < 0)
        do_call(dev, &c);
    else if (kept[recording].n < MAX_OPS)
        kept[recording].ops[kept[recording].n++] = c;
}

static void rec_map(void *dev, zn_tensor y, zn_tensor x, zn_tail t)
{
    take_call(dev, (call){ .is_map = true, .y = y, .a = x, .tail = t });
}

static void rec_binary(void *dev, zn_tensor y, zn_tensor a, zn_tensor b, zn_binary op, zn_tail t)
{
    take_call(dev, (call){ .y = y, .a = a, .b = b, .op = op, .tail = t });
}

static int find_key(uint64_t key)
{
    int i = 0;

    while (i < n_keys && kept[i].key != key)
        i++;
    return i;
}

static bool rec_replay(void *dev, uint64_t key)
{
    const int i = find_key(key);

    if (i == n_keys || !kept[i].n)
        return false;
    for (int j = 0; j < kept[i].n; j++)
        do_call(dev, &kept[i].ops[j]);
    n_replays++;
    return true;
}

static void rec_record(void *dev, uint64_t key)
{
    const int i = find_key(key);

    (void)dev;
    if (i == n_keys && n_keys < MAX_KEYS)
        kept[n_keys++].key = key;
    recording = i < n_keys && kept[i].seen++ == 1 ? i : -1; /* the second forward of a key */
    n_forwards++;
}

static void rec_recorded(void *dev, bool whole)
{
    const int i = recording;

    recording = -1;
    for (int j = 0; i >= 0 && j < kept[i].n; j++)
        do_call(dev, &kept[i].ops[j]);
    if (i >= 0 && !whole)
        kept[i].n = 0;
}

static zn_status rec_sync(void *dev, zn_error *err)
{
    n_syncs++;
    return zn_backend_scalar.sync(dev, err);
}

static void rec_load(void *dev, zn_tensor y, const float *x)
{
    n_loads++;
    zn_backend_scalar.load(dev, y, x);
}

/* ---- the loop ----------------------------------------------------------------------------------------------------- */

/* A network: p = tanh(x + t) / 2. */
static void net_bind(zn_binder *b, void *net)
{
    (void)b, (void)net;
}

static void net_forward(zn_ctx *c, const void *net, const zn_call *k)
{
    zn_tensor sum = zn_new(c, 1, k->out[0].h, k->out[0].w, k->out[0].c);

    (void)net;
    zn_combine(c, sum, k->in[0], k->in[1], ZN_ADD, (zn_tail){ .pre = ZN_TANH });
    zn_map(c, k->out[0], sum, (zn_tail){ .gain = 0.5f });
}

static const zn_arch network = {
    .info = { .id = "tiny", .in = { "x", "t" }, .out = { "p" } }, .size = 1, .bind = net_bind, .forward = net_forward
};

/* A composite that samples with it; its setting is the shift of the schedule. */
typedef struct composite {
    zn_model *net;
} composite;

static void composite_bind(zn_binder *b, void *net)
{
    ((composite *)net)->net = b->part[0];
}

static void predict(zn_ctx *c, void *cookie, zn_tensor p, zn_tensor x, zn_tensor t)
{
    zn_call_net(c, cookie, &(zn_call){ .in = { x, t }, .out = { p }, .n_in = 2, .n_out = 1 });
}

static void composite_forward(zn_ctx *c, const void *net, const zn_call *k)
{
    const zn_sampler s = {
        .schedule = &schedule, .clip = 0, .predict = predict, .cookie = ((const composite *)net)->net
    };

    if (k->set[2] > 0)
        zn_noise(c, k->in[0], (uint32_t)k->set[2], 0);
    if (!zn_schedule_flow(&schedule, (int)k->set[0], (double)k->set[1], 1, 1))
        zn_ctx_fail(c, ZN_E_USAGE, "no such steps");
    zn_map(c, k->out[0], k->in[0], (zn_tail){ 0 });
    zn_sample(c, k->out[0], &s);
}

static bool composite_shape(const void *net, const zn_tensor *in, int n_in, zn_tensor *out)
{
    (void)net;
    out[0] = in[0];
    return n_in == 1;
}

static const zn_setting settings[] = {
    { "steps", 20, 1, 1000, "" }, { "shift", 3, 0.1f, 10, "" }, { "seed", 0, 0, 1000, "" }, { 0 }
};
static const zn_part parts[] = { { &network, NULL }, { 0 } };
static const zn_arch sampling = {
    .info = { .id = "tiny-sample", .in = { "x" }, .out = { "y" }, .settings = settings },
    .size = sizeof(composite),
    .bind = composite_bind,
    .forward = composite_forward,
    .shape = composite_shape,
    .parts = parts,
};

enum { W = 5, H = 3, C = 3, LEN = W * H * C };
static zn_engine engine;
static zn_model *model;
static float input[LEN];

static int noise_seed;

static void plain_loop(double *x, int steps, double shift, double *estimate, int at)
{
    for (int i = 0; i < LEN; i++)
        x[i] = noise_seed ? zn_normal((uint64_t)noise_seed, 0, (uint64_t)i) : (double)input[i];
    for (int k = 0; k < steps; k++) {
        const double u = 1 - (double)k / steps, v = 1 - (k + 1.0) / steps;
        const double sigma = shift * u / (1 + (shift - 1) * u),
                     to = k + 1 < steps ? shift * v / (1 + (shift - 1) * v) : 0;

        for (int i = 0; i < LEN; i++) {
            const double p = tanh(x[i] + sigma) / 2;

            if (estimate && k == at)
                estimate[i] = x[i] - sigma * p;
            x[i] += (to - sigma) * p;
        }
    }
}

static zn_status sample(float *result, double shift, const zn_job *also, zn_error *err)
{
    const zn_value set[] = { { "steps", 20 }, { "shift", shift }, { "seed", noise_seed } };
    zn_job job = also ? *also : (zn_job){ 0 };
    zn_array x = { input, H, W, C }, y = { result, H, W, C };

    job.set = set;
    job.n_set = 3;
    return zn_request_run(model, &(zn_request){ .arrays = &x, .results = &y, .n_in = 1, .job = &job }, err);
}

static double worst(const float *got, const double *want)
{
    double most = 0;

    for (int i = 0; i < LEN; i++)
        most = test_larger(most, fabs(got[i] - want[i]));
    return most;
}

/* Two runs that differ in nothing but the time steps and coefficients: the second one is made of replays alone. */
static void replays_see_the_changes(void)
{
    float result[LEN];
    double want[LEN];
    zn_error err = { "" };

    CHECK(!sample(result, 3, NULL, &err), "%s", err.text);
    plain_loop(want, 20, 3, NULL, 0);
    CHECK(worst(result, want) < 1e-6, "the first run is off by %g", worst(result, want));
    CHECK(n_forwards == 2 && n_replays == 18, "%d forwards, %d replays", n_forwards, n_replays);
    CHECK(!sample(result, 1.5, NULL, &err), "%s", err.text);
    plain_loop(want, 20, 1.5, NULL, 0);
    CHECK(n_forwards == 2 && n_replays == 38, "%d forwards, %d replays after the second run", n_forwards, n_replays);
    CHECK(worst(result, want) < 1e-6, "the second run is off by %g", worst(result, want));
}

/* Another seed: other noise, the same recorded forward. */
static void replays_see_the_seed(void)
{
    const int forwards = n_forwards;
    float result[LEN], other[LEN];
    double want[LEN];
    zn_error err = { "" };

    for (noise_seed = 1; noise_seed <= 2; noise_seed++) {
        CHECK(!sample(noise_seed == 1 ? other : result, 3, NULL, &err), "%s", err.text);
        plain_loop(want, 20, 3, NULL, 0);
        CHECK(worst(noise_seed == 1 ? other : result, want) < 1e-6, "seed %d", noise_seed);
    }
    noise_seed = 0;
    CHECK(n_forwards == forwards && memcmp(result, other, sizeof other), "%d forwards", n_forwards - forwards);
}

/* One upload of the picture and one of all steps; nobody waits but at the end. */
static void the_loop_does_not_wait(void)
{
    float result[LEN];
    const int syncs = n_syncs, loads = n_loads;
    zn_error err = { "" };

    CHECK(!sample(result, 3, NULL, &err), "%s", err.text);
    CHECK(n_syncs - syncs == 1 && n_loads - loads == 2, "%d waits, %d uploads", n_syncs - syncs, n_loads - loads);
}

static double last_done;
static int n_reports;
static double stop_at;

static bool watch(void *cookie, double done)
{
    (void)cookie;
    n_reports += done > last_done;
    if (done < last_done)
        stop_at = -1;
    last_done = done;
    return done < stop_at;
}

static void progress_and_cancel(void)
{
    const zn_job job = { .progress = watch };
    float result[LEN];
    zn_error err = { "" };
    const int replays = n_replays;

    last_done = n_reports = 0;
    stop_at = 2;
    CHECK(!sample(result, 3, &job, &err), "%s", err.text);
    CHECK(last_done == 1 && n_reports >= 20, "%d reports, the last %g", n_reports, last_done);
    last_done = 0;
    stop_at = 0.5;
    CHECK(sample(result, 3, &job, &err) == ZN_E_CANCELLED, "it went on");
    CHECK(n_replays - replays >= 29 && n_replays - replays <= 32, "%d steps were done", n_replays - replays);
}

static int n_previews;
static float shown[LEN];

static void show(void *cookie, const zn_array *picture, int at, int n_steps)
{
    (void)cookie;
    n_previews += at % 6 == 0 && n_steps == 20 && zn_array_len(picture) == LEN;
    if (at == 12)
        memcpy(shown, picture->data, sizeof shown);
}

static void previews(void)
{
    const zn_job job = { .preview = show, .preview_every = 6 };
    float result[LEN];
    double want[LEN], estimate[LEN];
    zn_error err = { "" };

    CHECK(!sample(result, 3, &job, &err), "%s", err.text);
    plain_loop(want, 20, 3, estimate, 11);
    CHECK(n_previews == 3, "%d previews", n_previews);
    CHECK(worst(shown, estimate) < 1e-6 && worst(result, want) < 1e-6, "off by %g", worst(shown, estimate));
}

/* ---- the queue of a remote engine ------------------------------------------------------------------------------ */

static int n_waits;

static zn_status count_wait(void *dev, zn_error *err)
{
    (void)dev, (void)err;
    n_waits++;
    return ZN_OK;
}

static void launch_map(void *dev, zn_tensor y, zn_tensor x, zn_tail t)
{
    (void)dev, (void)y, (void)x, (void)t;
}

static bool ask_cookie(void *cookie, double done)
{
    (void)done;
    return *(bool *)cookie;
}

/* After a long step the queue is waited for part by part, and a run can be cancelled between them; a short one is not. */
static void long_steps(void)
{
    const zn_backend be = { .remote = true, .sync = count_wait, .map = launch_map };
    bool goes_on = true;
    zn_ctx c = { .be = &be, .progress = ask_cookie, .cookie = &goes_on, .total = 1e12 };
    const zn_tensor x = { NULL, 1, 10000, 10000, 1, 1, ZN_F32 }; /* nobody looks at it */

    zn_report(&c);
    CHECK(!zn_step_is_long(&c), "the first step is long");
    c.reported_at -= 1000;
    zn_report(&c);
    CHECK(zn_step_is_long(&c), "a second is short");
    n_waits = 0;
    for (int i = 0; i < 9; i++)
        zn_map(&c, x, x, (zn_tail){ 0 });
    CHECK(!n_waits, "waited %d times", n_waits);
    zn_pace(&c, true);
    for (int i = 0; i < 9; i++) {
        c.waited_at -= 1000; /* a slow device: parts stay small */
        zn_map(&c, x, x, (zn_tail){ 0 });
    }
    CHECK(n_waits >= 3, "waited %d times", n_waits);
    goes_on = false;
    zn_map(&c, x, x, (zn_tail){ 0 });
    CHECK(c.status == ZN_E_CANCELLED, "status %d", c.status);
    c.progress = NULL;
    CHECK(!zn_step_is_long(&c), "nobody can cancel");
}

int main(void)
{
    const zn_open open = { 0 };
    zn_error err = { "" };

    table = zn_backend_scalar;
    table.map = rec_map;
    table.binary = rec_binary;
    table.replay = rec_replay;
    table.record = rec_record;
    table.recorded = rec_recorded;
    table.sync = rec_sync;
    table.load = rec_load;
    engine = (zn_engine){ .be = &table, .n_threads = 1 };
    zn_turn_init(&engine.turn, ZN_TURN_ENGINE);
    for (int i = 0; i < LEN; i++)
        input[i] = sinf((float)i);
    RUN(betas);
    RUN(strides);
    RUN(diffusion_steps);
    RUN(ancestral_steps);
    RUN(flow_steps);
    RUN(noise_from_a_seed);
    if (table.open(&engine.dev, 1, &err) || zn_model_load(&model, &engine, &sampling, &open, &err)) {
        printf("not ok open: %s\n0 passed, 1 failed, 0 skipped\n", err.text);
        return 1;
    }
    RUN(replays_see_the_changes);
    RUN(replays_see_the_seed);
    RUN(the_loop_does_not_wait);
    RUN(progress_and_cancel);
    RUN(previews);
    RUN(long_steps);
    zn_model_free(&model);
    table.close(engine.dev);
    return test_end();
}
