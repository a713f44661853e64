/* SPDX-License-Identifier: MIT */
#include "ops.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

const char *const zn_precision_names[ZN_N_PRECISIONS] = { "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "int4" };

void zn_ctx_fail(zn_ctx *c, zn_status status, const char *fmt, ...)
{
    va_list ap;

    if (c->status)
        return;
    va_start(ap, fmt);
    c->status = zn_vfail(c->err, status, fmt, ap);
    va_end(ap);
}

zn_tensor zn_new_of(zn_ctx *c, zn_type type, int n, int h, int w, int ch)
{
    static float nowhere[1]; /* of a tensor without memory: slices of it can still be made */
    zn_tensor t = { nowhere, n, h, w, ch, ch, type };
    size_t size;
    void *data = NULL;

    assert(n > 0 && h > 0 && w > 0 && ch > 0);
    if (c->status)
        return t;
    if (zn_mul_size(&size, (size_t)n * (size_t)h, (size_t)w) &&
        zn_mul_size(&size, size, (size_t)ch * zn_type_size(type)))
        data = zn_arena_take(c->arena, size);
    if (data)
        t.data = data;
    else
        zn_ctx_fail(c, ZN_E_MEMORY, "the memory planned for this run is too small");
    return t;
}

zn_tensor zn_new(zn_ctx *c, int n, int h, int w, int ch)
{
    return zn_new_of(c, c->type, n, h, w, ch);
}

/* Reports the progress after this much work; false: cancelled. */
static bool report(zn_ctx *c, double work)
{
    const double done = c->total > 0 ? work / c->total : 0;

    if (c->progress && c->total > 0 && !c->progress(c->cookie, done < 1 ? done : 1))
        zn_ctx_fail(c, ZN_E_CANCELLED, "cancelled");
    return !c->status;
}

void zn_report(zn_ctx *c)
{
    if (c->status || c->dry || !c->progress)
        return;
    c->status = c->be->sync(c->dev, c->err);
    c->step_ms = c->reported_at > 0 ? zn_now_ms() - c->reported_at : 0;
    c->reported_at = zn_now_ms();
    if (!c->status)
        report(c, c->work);
}

/* ---- the queue of a remote engine ---------------------------------------------------------------------------- */

static const double long_ms = 100, part_ms = 25, least_part = 1e9;

bool zn_can_pace(const zn_ctx *c)
{
    return c->be->remote && c->progress && c->total > 0;
}

bool zn_is_long(double ms)
{
    return ms > long_ms;
}

bool zn_step_is_long(const zn_ctx *c)
{
    return zn_can_pace(c) && zn_is_long(c->step_ms);
}

void zn_pace(zn_ctx *c, bool on)
{
    c->part = on ? least_part : 0;
    c->waited_at = zn_now_ms();
    c->waited_for = c->work;
}

/* Waits for what was launched, if that is a part; the next one takes about part_ms. */
static void keep_pace(zn_ctx *c)
{
    const double work = c->work - c->waited_for;
    double now;

    if (c->part <= 0 || work < c->part)
        return;
    c->status = c->be->sync(c->dev, c->err);
    now = zn_now_ms();
    c->part = now > c->waited_at ? work * part_ms / (now - c->waited_at) : work;
    c->part = c->part > least_part ? c->part : least_part;
    c->waited_at = now;
    c->waited_for = c->work;
}

void zn_watch(zn_ctx *c, zn_tensor x, const char *fmt, ...)
{
    char name[96];
    va_list ap;

    if (!c->watch || c->dry || c->status)
        return;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    c->watch(c->watch_cookie, name, x);
}

bool zn_go_on(zn_ctx *c)
{
    return report(c, c->entered);
}

static bool poll(void *cookie)
{
    return zn_go_on(cookie);
}

/* Called first by each operation.  moved: floats read and written.  False: do nothing. */
static bool enter(zn_ctx *c, double macs, double moved, double *start)
{
    if (!c->status && !c->dry)
        keep_pace(c);
    if (c->status)
        return false;
    c->macs += macs;
    c->entered = c->work;
    c->work += macs + 4 * moved;
    if (c->dry)
        return false;
    if (!report(c, c->entered))
        return false;
    if (c->trace) {
        c->be->sync(c->dev, NULL);
        *start = zn_now_ms();
    }
    if (c->progress && c->total > 0)
        zn_pool_watch(poll, c);
    return true;
}

static void leave(zn_ctx *c, double macs, double start, const char *fmt, ...) ZN_PRINTF(4, 5);

static void leave(zn_ctx *c, double macs, double start, const char *fmt, ...)
{
    char op[64];
    zn_layer_time t = { op, 0, macs };
    va_list ap;

    zn_pool_watch(NULL, NULL);
    if (!c->trace)
        return;
    c->be->sync(c->dev, NULL);
    t.ms = zn_now_ms() - start;
    va_start(ap, fmt);
    vsnprintf(op, sizeof op, fmt, ap);
    va_end(ap);
    c->trace(c->trace_cookie, &t);
}

static double elements(zn_tensor t)
{
    return (double)zn_pixels(t) * t.c;
}

static bool same_shape(zn_tensor a, zn_tensor b)
{
    return a.n == b.n && a.h == b.h && a.w == b.w && a.c == b.c;
}

/* In a release build an unused tail check must not warn. */
static void check_tail(zn_tensor y, zn_tail t)
{
    assert(!t.residual || same_shape(*t.residual, y));
    assert(!t.also || (same_shape(*t.also, y) && t.also->type == y.type));
    (void)y, (void)t, (void)same_shape;
}

void zn_conv2d(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_conv *w, zn_tail t)
{
    int scale = w->up2 ? 2 : 1;
    double macs = elements(y) * w->kh * w->kw * (w->cin / w->groups), start = 0;
    const zn_tensor *also = t.also;

    assert(x.c == w->cin && y.c == w->cout && x.n == y.n);
    assert((y.h - 1) * w->stride - w->pad_t < x.h * scale);
    assert((y.w - 1) * w->stride - w->pad_l < x.w * scale);
    assert(!w->up2 || w->stride == 1);
    (void)scale;
    check_tail(y, t);
    if (also && !c->be->does_also)
        t.also = NULL;
    if (enter(c, macs, elements(x) + elements(y) * (t.also ? 2 : 1), &start)) {
        c->be->conv2d(c->dev, y, x, w, t);
        leave(c, macs, start, "%sconv %dx%d/%d %d>%d%s @%dx%d", w->up2 ? "up+" : "", w->kh, w->kw, w->stride, w->cin,
              w->cout, w->groups > 1 ? " grouped" : "", y.w, y.h);
    }
    if (also && !t.also && t.also_norm)
        zn_normalise(c, *also, y, t.also_norm, (zn_tail){ .pre = t.also_act });
    else if (also && !t.also)
        zn_map(c, *also, y, (zn_tail){ .pre = t.also_act });
}

/* One vector for each image. */
static bool is_vector_of(zn_tensor v, zn_tensor y)
{
    return v.n == y.n && v.h == 1 && v.w == 1 && v.c == y.c;
}

void zn_modulate(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_norm *w, const zn_modulation *m, zn_tail t)
{
    static const char *const name[] = { "group norm", "layer norm", "rms norm", "scaling" };
    double start = 0;

    assert(same_shape(x, y) && w->c == x.c);
    assert(w->kind != ZN_SCALED || (!m && (c->status || (w->gamma && w->beta))));
    assert(w->kind != ZN_GROUP_NORM || (w->groups > 0 && w->c % w->groups == 0));
    assert(!m || !m->scale.data || is_vector_of(m->scale, y));
    assert(!m || !m->shift.data || is_vector_of(m->shift, y));
    assert(!m || !m->gate.data || is_vector_of(m->gate, y));
    check_tail(y, t);
    if (!enter(c, 0, 3 * elements(x), &start))
        return;
    c->be->norm(c->dev, y, x, w, m, t);
    leave(c, 0, start, "%s%s %d @%dx%d", m ? "adaptive " : "", name[w->kind], x.c, x.w, x.h);
}

void zn_normalise(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_norm *w, zn_tail t)
{
    zn_modulate(c, y, x, w, NULL, t);
}

void zn_group_scales(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_norm *w)
{
    double start = 0;

    assert(w->kind == ZN_GROUP_NORM && w->c == x.c && w->c % w->groups == 0 && x.n == 1);
    assert(y.n == 1 && y.h == 1 && y.w == 2 && y.c == x.c && y.ld == y.c && y.type == ZN_F32);
    if (!enter(c, 0, elements(x), &start))
        return;
    c->be->group_scales(c->dev, y, x, w);
    leave(c, 0, start, "group scales %d @%dx%d", x.c, x.w, x.h);
}

void zn_attend(zn_ctx *c, zn_tensor y, zn_tensor q, zn_tensor k, zn_tensor v, const zn_attention *a)
{
    zn_attention full = *a;
    double n_q = (double)q.h * q.w, n_k = (double)k.h * k.w, macs, start = 0;

    full.kv_heads = a->kv_heads ? a->kv_heads : a->heads;
    assert(full.heads > 0 && full.heads % full.kv_heads == 0 && q.c % full.heads == 0 && v.c % full.kv_heads == 0);
    assert(k.c == q.c / full.heads * full.kv_heads && y.c == v.c / full.kv_heads * full.heads);
    assert(y.n == q.n && y.h == q.h && y.w == q.w && k.n == q.n && v.n == k.n && v.h == k.h && v.w == k.w);
    assert(!full.causal || n_q <= n_k);
    full.scale = a->scale != 0 ? a->scale : 1 / sqrtf((float)(q.c / full.heads));
    macs = q.n * n_q * (full.causal ? n_k - (n_q - 1) / 2 : n_k) * (q.c + y.c);
    if (!enter(c, macs, elements(q) + elements(k) + elements(v) + elements(y), &start))
        return;
    c->be->attention(c->dev, y, q, k, v, &full);
    leave(c, macs, start, "attention %d tokens x %d", q.h * q.w, q.c);
}

void zn_rotate(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_rope *r)
{
    double start = 0;

    assert(same_shape(x, y) && x.type == y.type && r->heads > 0 && x.c % (2 * r->heads) == 0);
    assert(r->cos.c == x.c / r->heads / 2 && same_shape(r->cos, r->sin) && r->cos.n == 1 && r->cos.h == 1);
    assert(r->cos.w >= x.h * x.w && r->cos.type == ZN_F32 && r->sin.type == ZN_F32);
    if (!enter(c, 0, 2 * elements(x), &start))
        return;
    c->be->rope(c->dev, y, x, r);
    leave(c, 0, start, "rope %d @%dx%d", x.c, x.w, x.h);
}

void zn_lookup(zn_ctx *c, zn_tensor y, zn_tensor table, zn_tensor index)
{
    double start = 0;

    assert(table.n == 1 && table.h == 1 && table.c == y.c && index.type == ZN_F32);
    assert(index.n == y.n && index.h == y.h && index.w == y.w && index.c == 1);
    if (!enter(c, 0, 2 * elements(y), &start))
        return;
    c->be->lookup(c->dev, y, table, index);
    leave(c, 0, start, "lookup %d @%dx%d", y.c, y.w, y.h);
}

void zn_resize(zn_ctx *c, zn_tensor y, zn_tensor x, zn_filter f)
{
    double start = 0;

    assert(x.n == y.n && x.c == y.c);
    assert(f != ZN_AVERAGE || (x.h % y.h == 0 && x.w % y.w == 0));
    if (!enter(c, 0, elements(x) + elements(y), &start))
        return;
    c->be->resize(c->dev, y, x, f);
    leave(c, 0, start, "resize %d @%dx%d", y.c, y.w, y.h);
}

void zn_unshuffle(zn_ctx *c, zn_tensor y, zn_tensor x, int r)
{
    double start = 0;

    assert(y.h * r == x.h && y.w * r == x.w && y.c == x.c * r * r && x.n == y.n);
    if (!enter(c, 0, 2 * elements(x), &start))
        return;
    c->be->unshuffle(c->dev, y, x, r);
    leave(c, 0, start, "unshuffle %d @%dx%d", y.c, y.w, y.h);
}

void zn_shuffle(zn_ctx *c, zn_tensor y, zn_tensor x, int r, zn_tail t)
{
    double start = 0;

    assert(x.h * r == y.h && x.w * r == y.w && x.c == y.c * r * r && x.n == y.n);
    check_tail(y, t);
    if (!enter(c, 0, 2 * elements(x), &start))
        return;
    c->be->shuffle(c->dev, y, x, r, t);
    leave(c, 0, start, "shuffle %d @%dx%d", y.c, y.w, y.h);
}

void zn_map(zn_ctx *c, zn_tensor y, zn_tensor x, zn_tail t)
{
    double start = 0;

    assert(same_shape(x, y));
    check_tail(y, t);
    if (!enter(c, 0, 2 * elements(x), &start))
        return;
    c->be->map(c->dev, y, x, t);
    leave(c, 0, start, "map %d @%dx%d", y.c, y.w, y.h);
}

/* Rows are copied as if they were pixels of many channels. */
void zn_window(zn_ctx *c, zn_tensor y, zn_tensor x, int left, int top)
{
    const size_t first = ((size_t)top * (size_t)x.w + (size_t)left) * (size_t)x.c;

    assert(x.n == 1 && y.n == 1 && x.ld == x.c && y.ld == y.c && x.c == y.c);
    assert(left >= 0 && top >= 0 && y.w <= x.w - left && y.h <= x.h - top && x.w <= INT32_MAX / x.c);
    x.data = (float *)((char *)x.data + first * zn_type_size(x.type));
    x.ld = x.w * x.c;
    y.ld = x.c = y.c = y.w * y.c;
    x.w = y.w = y.h;
    x.h = y.h = 1;
    zn_map(c, y, x, (zn_tail){ 0 });
}

void zn_combine(zn_ctx *c, zn_tensor y, zn_tensor a, zn_tensor b, zn_binary op, zn_tail t)
{
    double start = 0;

    assert(same_shape(a, y));
    assert(same_shape(b, y) || is_vector_of(b, y) || zn_pixels(b) * (size_t)b.c == 1 ||
           (b.n == y.n && b.h == y.h && b.w == y.w && b.c == 1));
    check_tail(y, t);
    if (!enter(c, 0, 3 * elements(y), &start))
        return;
    c->be->binary(c->dev, y, a, b, op, t);
    leave(c, 0, start, "%s %d @%dx%d", op == ZN_MUL ? "multiply" : "add", y.c, y.w, y.h);
}

void zn_step(zn_ctx *c, zn_tensor y, zn_tensor x, zn_tensor p, zn_tensor coefs, float clip)
{
    double start = 0;

    assert(same_shape(x, y) && same_shape(p, y) && clip >= 0);
    assert(zn_pixels(coefs) == 1 && coefs.c == ZN_STEP_COEFS && coefs.type == ZN_F32);
    if (!enter(c, 0, 3 * elements(y), &start))
        return;
    c->be->step(c->dev, y, x, p, coefs, clip);
    leave(c, 0, start, "step %d @%dx%d", y.c, y.w, y.h);
}

void zn_fill(zn_ctx *c, zn_tensor y, const float *value)
{
    double start = 0;

    if (!enter(c, 0, elements(y), &start))
        return;
    c->be->fill(c->dev, y, value);
    leave(c, 0, start, "fill %d @%dx%d", y.c, y.w, y.h);
}

/* ---- those of special.h ------------------------------------------------------------------------------------ */

/* Fails, also in a dry run, where there is no such operation.  In place of a remote engine the CPU can do it. */
static bool has_special(zn_ctx *c, bool has)
{
    if (!has)
        zn_ctx_fail(c, ZN_E_DEVICE, "the engine %s has no operation for this kind of network", c->be->name);
    return has;
}

void zn_transform(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_fwht *w)
{
    static const char *const name[] = { "channels", "rows", "columns" };
    bool along_c = w->axis == ZN_ALONG_C, twice = w->gate || w->slm || w->mix;
    int rounds = (along_c && w->rounds ? w->rounds : 1) + twice;
    double macs = 0, start = 0, lines;

    assert(w->n >= 2 && w->n <= ZN_FWHT_MAX && !(w->n & (w->n - 1)));
    assert(w->shift >= 0 && w->shift < w->n);
    assert(along_c ? x.n == y.n && x.h == y.h && x.w == y.w && x.c <= w->n && y.c <= w->n : same_shape(x, y));
    assert(along_c ? !w->shift && !w->per_channel : !w->pre && !w->perm && !w->slm && !w->mix && !w->bias);
    lines = along_c ? (double)zn_pixels(x) * w->n : elements(x);
    for (int len = 1; len < w->n; len *= 2)
        macs += 0.5 * rounds * lines; /* an addition is half a multiply-add */
    if (!has_special(c, c->be->special && c->be->special->fwht) || !enter(c, macs, elements(x) + elements(y), &start))
        return;
    c->be->special->fwht(c->dev, y, x, w);
    leave(c, macs, start, "%s%d fwht %s %d @%dx%d", w->slm ? "slm " : "", rounds, name[w->axis], w->n, y.w, y.h);
}

/* As special.h states it, with the operations of every backend. */
static void gated_parts(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_gated *w)
{
    const zn_norm norm = { .kind = ZN_LAYER_NORM, .c = x.c, .eps = w->eps };
    const size_t mark = zn_mark(c->arena);
    zn_tensor u = zn_new(c, x.n, x.h, x.w, x.c), wide = zn_new(c, x.n, x.h, x.w, 2 * x.c);
    zn_tensor both = zn_new(c, x.n, x.h, x.w, 2 * x.c);

    zn_normalise(c, u, x, &norm, (zn_tail){ 0 });
    zn_conv2d(c, wide, u, &w->pw1, (zn_tail){ 0 });
    zn_conv2d(c, both, wide, &w->dw, (zn_tail){ 0 });
    zn_combine(c, u, zn_slice(both, 0, x.c), zn_slice(both, x.c, x.c), ZN_MUL, (zn_tail){ 0 });
    zn_conv2d(c, y, u, &w->pw2, (zn_tail){ .residual = &x });
    zn_normalise(c, u, y, &norm, (zn_tail){ 0 });
    zn_conv2d(c, wide, u, &w->pw3, (zn_tail){ 0 });
    zn_combine(c, u, zn_slice(wide, 0, x.c), zn_slice(wide, x.c, x.c), ZN_MUL, (zn_tail){ 0 });
    zn_conv2d(c, y, u, &w->pw4, (zn_tail){ .residual = &y });
    zn_reset(c->arena, mark);
}

void zn_gated_block(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_gated *w)
{
    double macs = elements(x) * (6.0 * x.c + 18), start = 0;

    assert(same_shape(x, y) && x.c <= ZN_GATED_MAX_C && (c->status || x.data != y.data));
    assert(w->pw1.cin == x.c && w->pw1.cout == 2 * x.c && w->dw.groups == 2 * x.c && w->pw2.cin == x.c);
    if (!c->be->special || !c->be->special->gated) {
        gated_parts(c, y, x, w);
        return;
    }
    if (!enter(c, macs, 2 * elements(x), &start))
        return;
    c->be->special->gated(c->dev, y, x, w);
    leave(c, macs, start, "gated block %d @%dx%d", x.c, x.w, x.h);
}

static zn_tensor per_head(zn_tensor x, int dim)
{
    return zn_reshape(x, x.n, x.h, x.w * (x.c / dim), dim);
}

/* The parts of the next three, where the backend has refused. */
static void glu_parts(zn_ctx *c, zn_tensor y, zn_tensor x, zn_tensor room, const zn_conv *gate, const zn_conv *up)
{
    c->be->conv2d(c->dev, y, x, gate, (zn_tail){ .pre = ZN_SILU });
    c->be->conv2d(c->dev, room, x, up, (zn_tail){ 0 });
    c->be->binary(c->dev, y, y, room, ZN_MUL, (zn_tail){ 0 });
}

void zn_glu(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_conv *gate, const zn_conv *up)
{
    const zn_special *special = c->be->special;
    const double macs = 2 * elements(y) * x.c;
    const size_t mark = zn_mark(c->arena);
    const zn_tensor room = zn_new(c, y.n, y.h, y.w, y.c);
    double start = 0;

    assert(gate->cin == x.c && up->cin == x.c && gate->cout == y.c && up->cout == y.c);
    if (!special || !special->glu) {
        zn_conv2d(c, y, x, gate, (zn_tail){ .pre = ZN_SILU });
        zn_conv2d(c, room, x, up, (zn_tail){ 0 });
        zn_combine(c, y, y, room, ZN_MUL, (zn_tail){ 0 });
    } else if (enter(c, macs, 2 * elements(x) + 2 * elements(y), &start)) {
        if (!special->glu(c->dev, y, x, gate, up))
            glu_parts(c, y, x, room, gate, up);
        leave(c, macs, start, "gated linear %d>%d @%dx%d", x.c, y.c, y.w, y.h);
    }
    zn_reset(c->arena, mark);
}

void zn_norm_rotate(zn_ctx *c, zn_tensor y, zn_tensor x, const zn_norm *norm, const zn_rope *r)
{
    const zn_special *special = c->be->special;
    double start = 0;

    assert(same_shape(x, y) && norm->c * r->heads == x.c);
    if (!special || !special->norm_rope) {
        zn_normalise(c, per_head(y, norm->c), per_head(x, norm->c), norm, (zn_tail){ 0 });
        zn_rotate(c, y, y, r);
    } else if (enter(c, 0, 2 * elements(x), &start)) {
        if (!special->norm_rope(c->dev, y, x, norm, r)) {
            c->be->norm(c->dev, per_head(y, norm->c), per_head(x, norm->c), norm, NULL, (zn_tail){ 0 });
            c->be->rope(c->dev, y, y, r);
        }
        leave(c, 0, start, "norm, rope %d @%dx%d", x.c, x.w, x.h);
    }
}

void zn_add_norm(zn_ctx *c, zn_tensor x, zn_tensor change, const zn_norm *after, const zn_modulation *gate, zn_tensor y,
                 const zn_norm *before, const zn_modulation *scale)
{
    const zn_special *special = c->be->special;
    double start = 0;

    assert(same_shape(x, change) && same_shape(x, y) && after->c == x.c && before->c == x.c);
    if (!special || !special->add_norm) {
        zn_modulate(c, x, change, after, gate, (zn_tail){ .residual = &x });
        zn_modulate(c, y, x, before, scale, (zn_tail){ 0 });
    } else if (enter(c, 0, 4 * elements(x), &start)) {
        if (!special->add_norm(c->dev, x, change, after, gate, y, before, scale)) {
            c->be->norm(c->dev, x, change, after, gate, (zn_tail){ .residual = &x });
            c->be->norm(c->dev, y, x, before, scale, (zn_tail){ 0 });
        }
        leave(c, 0, start, "norm, add, norm %d @%dx%d", x.c, x.w, x.h);
    }
}

void zn_linears(zn_ctx *c, const zn_tensor *y, zn_tensor x, const zn_conv *const *w, int n)
{
    const zn_special *special = c->be->special;
    double macs = 0, start = 0;

    for (int i = 0; i < n; i++)
        macs += elements(y[i]) * x.c;
    if (!special || !special->linears) {
        for (int i = 0; i < n; i++)
            zn_conv2d(c, y[i], x, w[i], (zn_tail){ 0 });
    } else if (enter(c, macs, n * elements(x) + macs / x.c, &start)) {
        if (!special->linears(c->dev, y, x, w, n))
            for (int i = 0; i < n; i++)
                c->be->conv2d(c->dev, y[i], x, w[i], (zn_tail){ 0 });
        leave(c, macs, start, "%d linear %d @%dx%d", n, x.c, x.w, x.h);
    }
}

void zn_prune(zn_ctx *c, zn_tensor y, zn_tensor mask, zn_tensor x, const zn_pruned *w)
{
    double macs = 9 * elements(y), start = 0;
    zn_pruned gate = *w, eyes = *w;

    assert(same_shape(x, y) && w->c == x.c && x.c % 8 == 0);
    assert(mask.n == x.n && mask.h == x.h && mask.w == x.w && mask.c == x.c / 8);
    gate.weight = NULL; /* two steps, so that a profile shows what pruning saves */
    eyes.scale = NULL;
    if (!has_special(c, c->be->special && c->be->special->pruned))
        return;
    if (!enter(c, 0, elements(x), &start)) {
        enter(c, macs, elements(x) + elements(y), &start);
        return;
    }
    c->be->special->pruned(c->dev, y, mask, x, &gate);
    leave(c, 0, start, "gate %d @%dx%d", y.c, y.w, y.h);
    if (!enter(c, macs, elements(x) + elements(y), &start))
        return;
    c->be->special->pruned(c->dev, y, mask, x, &eyes);
    leave(c, macs, start, "pruned 3x3 %d @%dx%d", y.c, y.w, y.h);
}

/* ---- between host and device -------------------------------------------------------------------------------- */

void zn_upload(zn_ctx *c, zn_tensor y, const float *x)
{
    double start = 0;

    assert(y.ld == y.c);
    if (!enter(c, 0, elements(y), &start))
        return;
    c->be->load(c->dev, y, x);
    leave(c, 0, start, "upload %d @%dx%d", y.c, y.w, y.h);
}

void zn_layer(zn_ctx *c, int i)
{
    double start = 0;

    if (!c->streamed || !enter(c, 0, 3 * c->streamed->weights, &start))
        return;
    c->streamed->fetch(c, c->streamed->cookie, i);
    leave(c, 0, start, "layer %d from disk", i);
}

void zn_download(zn_ctx *c, float *y, zn_tensor x)
{
    double start = 0;

    assert(x.ld == x.c);
    if (!enter(c, 0, elements(x), &start))
        return;
    c->be->store(c->dev, y, x);
    leave(c, 0, start, "download %d @%dx%d", x.c, x.w, x.h);
}
