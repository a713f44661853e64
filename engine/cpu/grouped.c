/* SPDX-License-Identifier: MIT */
/* grouped.c - 1x1 convolutions in groups.  Their sums are short, so memory accesses and pointer tables would dominate.
 *
 * Pixels lie at constant strides: there is no table.  Groups of fewer outputs than a vector are merged, with
 * zeros between them.  An item is some blocks of pixels; a block stays in L1 while all groups are computed.
 *
 * packed: [merged group][panel of NR outputs][bias, then one row per input][outputs, whole vectors] */
#include "../core/ints.h"
#include "conv.h"

enum { BLOCK = 1 << 13 /* floats of x and y per block */, BLOCKS = 8 /* per item */ };

typedef struct grouped_job {
    zn_conv_job c;
    bool quick; /* the kernel can do the tail */
    int block;  /* pixels */
} grouped_job;

/* Groups that are computed as one. */
static int merged(const zn_kernels *k, const zn_conv *w)
{
    int m = 1;

    while (w->groups % (2 * m) == 0 && (m * w->cout / w->groups < k->vl || m * w->cin / w->groups % 4))
        m *= 2;
    return m;
}

static bool suits(const zn_cpu *d, const zn_conv *w)
{
    const zn_kernels *k = d->k;

    return k->panels.panel && w->groups > 1 && w->kh == 1 && w->kw == 1 && w->stride == 1 && !w->up2 && !w->pad_t &&
        !w->pad_l && w->cin / w->groups > 1 && w->cin / w->groups * merged(k, w) % 4 == 0;
}

static size_t size(const zn_kernels *k, const zn_conv *w)
{
    int m = merged(k, w);

    return sizeof(float) * (size_t)(w->groups / m) * (size_t)(m * w->cin / w->groups + 1) *
        (size_t)zn_round_up(m * w->cout / w->groups, k->vl);
}

static void pack(const zn_cpu *d, const zn_conv *w, const float *weight, const float *bias)
{
    const zn_kernels *k = d->k;
    int m = merged(k, w), cin = w->cin / w->groups, cout = w->cout / w->groups;
    float *to = w->packed;

    for (int first = 0; first < w->cout; first += m * cout)
        for (int panel = 0; panel < m * cout; panel += k->nr) {
            int n = m * cout - panel < k->nr ? m * cout - panel : k->nr;

            for (int c = -1; c < m * cin; c++)
                for (int o = panel; o < panel + zn_round_up(n, k->vl); o++) {
                    bool there = o < panel + n && (c < 0 || o / cout == c / cin);

                    if (there && c < 0)
                        *to++ = bias ? bias[first + o] : 0;
                    else
                        *to++ = there ? weight[(size_t)(first + o) * (size_t)cin + (size_t)(c % cin)] : 0;
                }
        }
}

static void run_block(const grouped_job *job, size_t first, int rows, int worker)
{
    const zn_conv *w = job->c.w;
    const zn_kernels *k = job->c.d->k;
    const zn_tensor *res = job->c.t.residual;
    int m = merged(k, w), cin = m * w->cin / w->groups, cout = m * w->cout / w->groups;
    size_t ld = job->quick ? (size_t)job->c.y.ld : (size_t)w->cout;
    float *y = job->quick ? job->c.y.data + first * ld : zn_cpu_scratch(job->c.d, worker);
    const float *packed = w->packed;

    for (int g = 0; g < w->groups / m; g++)
        for (int o = 0; o < cout; o += k->nr) {
            int n = cout - o < k->nr ? cout - o : k->nr, at = g * cout + o;
            zn_panel p = { .y = y + at,
                           .x = job->c.x.data + first * (size_t)job->c.x.ld + g * cin,
                           .w = packed,
                           .y_ld = ld,
                           .x_ld = (size_t)job->c.x.ld,
                           .rows = rows,
                           .k = cin,
                           .n = n };

            if (job->quick && res) {
                p.res = res->data + first * (size_t)res->ld + at;
                p.res_ld = (size_t)res->ld;
            }
            k->panels.panel(&p);
            packed += (size_t)(cin + 1) * (size_t)zn_round_up(n, k->vl);
        }
    for (int i = 0; i < rows && !job->quick; i++) {
        size_t p = first + (size_t)i;

        k->map(job->c.y.data + p * (size_t)job->c.y.ld, y + (size_t)i * ld, NULL, NULL, zn_residual_at(&job->c.t, p),
               (size_t)w->cout, &job->c.t);
    }
}

static void grouped_item(void *cookie, int item, int worker)
{
    const grouped_job *job = cookie;
    size_t all = zn_pixels(job->c.y), block = (size_t)job->block, first = (size_t)item * block * BLOCKS;

    for (size_t p = first; p < first + block * BLOCKS && p < all; p += block)
        run_block(job, p, (int)(all - p < block ? all - p : block), worker);
}

static void run(const zn_conv_job *c)
{
    const zn_conv *w = c->w;
    const zn_tail *t = &c->t;
    grouped_job job = { .c = *c, .quick = !t->pre && !t->post && t->gain == 1 };
    int mr = c->d->k->mr, block = BLOCK / (w->cin + w->cout) / mr * mr;

    job.block = block > mr ? block : mr;
    assert((size_t)job.block * (size_t)w->cout * sizeof(float) <= ZN_SCRATCH);
    zn_pool_run(c->d->pool, grouped_item, &job, zn_items(zn_pixels(c->y), (size_t)job.block * BLOCKS));
}

const zn_conv_algorithm zn_conv_grouped = {
    .name = "grouped 1x1", .suits = suits, .size = size, .pack = pack, .run = run
};
