/* SPDX-License-Identifier: MIT */
/* blocks.c - quantised types of weight files: elements come in blocks that share scales.
 *
 * q4_0 to q6_K are those of GGUF (llama.cpp); a block is a run of 32 or 256 elements of a row.  mlx4 and mlx8 are those of MLX:
 * nibbles or bytes in 32-bit words, the first element in the low one, with a scale and an offset per group of 32 in two
 * other tensors.  e4m3 may have a scale per row in another tensor.
 *
 * q8_0, q4_0 and those groups of mlx8 and mlx4 whose offset is minus the middle of their range hold what zn_quantise makes, in
 * another order: zn_entry_read_quantised rounds none of them again. */
#include "weightfile.h"

#include <float.h>
#include <math.h>
#include <string.h>

static float half_at(const unsigned char *p)
{
    return zn_from_f16(zn_le16(p));
}

/* d [m] nibbles: of elements 0 .. 15 the low ones, of 16 .. 31 the high ones; high: their fifth bits, or 0. */
static void small_block(float *y, const unsigned char *q, uint32_t high, float d, float m, int zero)
{
    for (int i = 0; i < 16; i++) {
        y[i] = d * (float)((int)((q[i] & 15) | (high >> i & 1) << 4) - zero) + m;
        y[i + 16] = d * (float)((int)(q[i] >> 4 | (high >> (i + 16) & 1) << 4) - zero) + m;
    }
}

static void read_q4_0(float *y, const unsigned char *p)
{
    small_block(y, p + 2, 0, half_at(p), 0, 8);
}

static void read_q4_1(float *y, const unsigned char *p)
{
    small_block(y, p + 4, 0, half_at(p), half_at(p + 2), 0);
}

static void read_q5_0(float *y, const unsigned char *p)
{
    small_block(y, p + 6, zn_le32(p + 2), half_at(p), 0, 16);
}

static void read_q5_1(float *y, const unsigned char *p)
{
    small_block(y, p + 8, zn_le32(p + 4), half_at(p), half_at(p + 2), 0);
}

static void read_q8_0(float *y, const unsigned char *p)
{
    const float d = half_at(p);

    for (int i = 0; i < 32; i++)
        y[i] = d * (float)(int8_t)p[2 + i];
}

/* The j-th of 8 pairs of 6 bits in 12 bytes: a scale and an offset. */
static void pair_at(int *scale, int *offset, const unsigned char *s, int j)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *offset = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        *offset = s[j + 4] >> 4 | (s[j] >> 6) << 4;
    }
}

/* d, d of offsets, pairs, and nibbles; high: fifth bits, or NULL. */
static void large_block(float *y, const unsigned char *p, const unsigned char *high, const unsigned char *q)
{
    const float d = half_at(p), m = half_at(p + 2);

    for (int j = 0; j < 8; j++, y += 32) {
        int scale, offset;

        pair_at(&scale, &offset, p + 4, j);
        for (int i = 0; i < 32; i++) {
            const int low = j % 2 ? q[i] >> 4 : q[i] & 15, fifth = high ? (high[i] >> j & 1) << 4 : 0;

            y[i] = d * (float)scale * (float)(low | fifth) - m * (float)offset;
        }
        q += j % 2 ? 32 : 0;
    }
}

static void read_q4_k(float *y, const unsigned char *p)
{
    large_block(y, p, NULL, p + 16);
}

static void read_q5_k(float *y, const unsigned char *p)
{
    large_block(y, p, p + 16, p + 48);
}

/* 128 bytes of low nibbles, 64 of two more bits each, 16 scales, d. */
static void read_q6_k(float *y, const unsigned char *p)
{
    const unsigned char *low = p, *high = p + 128, *scale = p + 192;
    const float d = half_at(p + 208);

    for (int half = 0; half < 2; half++, low += 64, high += 32, scale += 8, y += 128)
        for (int i = 0; i < 128; i++) {
            const int nibble = i < 64 ? low[i] & 15 : low[i - 64] >> 4, two = high[i % 32] >> 2 * (i / 32) & 3;

            y[i] = d * (float)(int8_t)scale[i / 16] * (float)((nibble | two << 4) - 32);
        }
}

/* A block of mlx4 without its scales: 8 elements of one word. */
static void read_mlx4(float *y, const unsigned char *p)
{
    const uint32_t word = zn_le32(p);

    for (int i = 0; i < 8; i++)
        y[i] = (float)(word >> 4 * i & 15);
}

static void read_mlx8(float *y, const unsigned char *p)
{
    for (int i = 0; i < 4; i++)
        y[i] = (float)p[i];
}

static const zn_block blocks[] = {
    [ZN_Q4_0 - ZN_Q4_0] = { "Q4_0", 32, 18, read_q4_0 },   [ZN_Q4_1 - ZN_Q4_0] = { "Q4_1", 32, 20, read_q4_1 },
    [ZN_Q5_0 - ZN_Q4_0] = { "Q5_0", 32, 22, read_q5_0 },   [ZN_Q5_1 - ZN_Q4_0] = { "Q5_1", 32, 24, read_q5_1 },
    [ZN_Q8_0 - ZN_Q4_0] = { "Q8_0", 32, 34, read_q8_0 },   [ZN_Q4_K - ZN_Q4_0] = { "Q4_K", 256, 144, read_q4_k },
    [ZN_Q5_K - ZN_Q4_0] = { "Q5_K", 256, 176, read_q5_k }, [ZN_Q6_K - ZN_Q4_0] = { "Q6_K", 256, 210, read_q6_k },
    [ZN_MLX4 - ZN_Q4_0] = { "MLX4", 8, 4, read_mlx4 },     [ZN_MLX8 - ZN_Q4_0] = { "MLX8", 4, 4, read_mlx8 },
};

const zn_block *zn_block_of(zn_type t)
{
    return t >= ZN_Q4_0 ? &blocks[t - ZN_Q4_0] : NULL;
}

/* The scales and offsets of MLX, one per group of 32 elements, from group `at` on: y = scale * y + offset. */
static zn_status scale_groups(const zn_entry *e, float *y, size_t at, size_t left, zn_error *err)
{
    enum { PIECE = 1024 };
    float scale[PIECE], offset[PIECE];

    for (size_t n; left; left -= n, at += n) {
        zn_status s;

        n = left < PIECE ? left : PIECE;
        if ((s = zn_entry_read_part(e->scales, scale, at, n, err)) ||
            (s = zn_entry_read_part(e->offsets, offset, at, n, err)))
            return s;
        for (size_t i = 0; i < n * ZN_MLX_GROUP; i++, y++)
            *y = scale[i / ZN_MLX_GROUP] * *y + offset[i / ZN_MLX_GROUP];
    }
    return ZN_OK;
}

zn_status zn_blocks_read(const zn_entry *e, float *dst, size_t first, size_t len, zn_error *err)
{
    const zn_block *b = zn_block_of(e->dtype);
    unsigned char piece[1 << 14];
    const size_t most = sizeof piece / b->size;
    size_t left = len / b->len, n;
    uint64_t at = e->at + first / b->len * b->size;
    float *y = dst;

    for (; left; left -= n, at += n * b->size) {
        zn_status s;

        n = left < most ? left : most;
        if ((s = zn_file_read(e->file, at, piece, n * b->size, err)))
            return s;
        for (size_t i = 0; i < n; i++, y += b->len)
            b->read(y, piece + i * b->size);
    }
    return e->scales ? scale_groups(e, dst, first / ZN_MLX_GROUP, len / ZN_MLX_GROUP, err) : ZN_OK;
}

/* ---- e4m3 ------------------------------------------------------------------------------------------------------ */

zn_status zn_rows_scale(const zn_entry *e, float *x, size_t first, size_t n, zn_error *err)
{
    const size_t each = n ? zn_entry_len(e) / zn_entry_len(e->scales) : 0;
    bool finite = true;

    for (size_t some; n && finite; n -= some, first += some, x += some) {
        float scale;
        zn_status s = zn_entry_read_part(e->scales, &scale, first / each, 1, err);

        if (s)
            return s;
        if (!(scale > 0 && scale <= FLT_MAX))
            return zn_fail(err, ZN_E_FILE, "%s is damaged: '%s' holds %g, which is no scale", e->file->label,
                           e->scales->name, (double)scale);
        some = each - first % each < n ? each - first % each : n;
        for (size_t i = 0; i < some; i++) {
            x[i] *= scale;
            finite &= fabsf(x[i]) <= FLT_MAX;
        }
    }
    return finite
        ? ZN_OK
        : zn_fail(err, ZN_E_FILE, "%s is damaged: '%s' holds numbers that are not finite", e->file->label, e->name);
}

/* ---- as zn_quantise stores them ------------------------------------------------------------------------------- */

static void copy_q8_0(uint8_t *q, const unsigned char *p)
{
    memcpy(q, p, ZN_W_GROUP);
}

/* Elements 0 .. 15 are low nibbles, 16 .. 31 high ones; here neighbours share a byte. */
static void copy_q4_0(uint8_t *q, const unsigned char *p)
{
    for (int i = 0; i < ZN_W_GROUP / 4; i++) {
        q[i] = (uint8_t)((p[2 * i] & 15) | p[2 * i + 1] << 4);
        q[i + ZN_W_GROUP / 4] = (uint8_t)(p[2 * i] >> 4 | (p[2 * i + 1] & 0xf0));
    }
}

/* Blocks of 32 elements after an f16. */
static zn_status copy_blocks(const zn_entry *e, zn_wtype t, uint8_t *q, uint16_t *scale, size_t first, size_t n,
                             zn_error *err)
{
    const size_t size = zn_block_of(e->dtype)->size, each = zn_wtype_size(t, ZN_W_GROUP);
    unsigned char piece[1 << 14];
    size_t left = n / ZN_W_GROUP, some;

    for (uint64_t at = e->at + first / ZN_W_GROUP * size; left; left -= some, at += some * size) {
        zn_status s;

        some = left < sizeof piece / size ? left : sizeof piece / size;
        if ((s = zn_file_read(e->file, at, piece, some * size, err)))
            return s;
        for (size_t i = 0; i < some; i++, q += each) {
            *scale++ = zn_le16(piece + i * size);
            (t == ZN_W_I8 ? copy_q8_0 : copy_q4_0)(q, piece + i * size + 2);
        }
    }
    return ZN_OK;
}

/* Words, scales and offsets of MLX.  *same: what was copied is the tensor. */
static zn_status copy_mlx(const zn_entry *e, zn_wtype t, uint8_t *q, uint16_t *scale, size_t first, size_t n,
                          bool *same, zn_error *err)
{
    const float middle = t == ZN_W_I4 ? 8 : 128;
    const size_t size = zn_wtype_size(t, n), groups = n / ZN_W_GROUP, group = first / ZN_W_GROUP;
    uint16_t offset[1024];
    size_t some;
    zn_status s =
        zn_file_read(e->scales->file, e->scales->at + group * sizeof *scale, scale, groups * sizeof *scale, err);

    *same = true;
    for (size_t i = 0; i < groups && *same && !s; i += some) {
        some = groups - i < sizeof offset / sizeof *offset ? groups - i : sizeof offset / sizeof *offset;
        s = zn_file_read(e->offsets->file, e->offsets->at + (group + i) * sizeof *offset, offset, some * sizeof *offset,
                         err);
        for (size_t j = 0; j < some && !s; j++) {
            const float v = zn_from_f16(scale[i + j]);

            *same = *same && v - v == 0 && zn_from_f16(offset[j]) == -middle * v; /* finite */
        }
    }
    if (*same && !s)
        s = zn_file_read(e->file, e->at + zn_wtype_size(t, first), q, size, err);
    for (size_t i = 0; t == ZN_W_I8 && i < size && *same && !s; i++)
        q[i] ^= 0x80;
    return s;
}

zn_status zn_entry_read_quantised(const zn_entry *e, zn_wtype t, void *q, uint16_t *scale, size_t first, size_t n,
                                  zn_error *err)
{
    enum { PIECE = 8 * ZN_WHOLE_BLOCKS };
    const bool halves = e->offsets && e->scales->dtype == ZN_F16 && e->offsets->dtype == ZN_F16;
    uint8_t *to = q;
    float x[PIECE];
    zn_status s = ZN_OK;

    if (e->dtype == (t == ZN_W_I8 ? ZN_Q8_0 : ZN_Q4_0))
        return copy_blocks(e, t, to, scale, first, n, err);
    if (e->dtype == (t == ZN_W_I8 ? ZN_MLX8 : ZN_MLX4) && halves) {
        bool same;

        if ((s = copy_mlx(e, t, to, scale, first, n, &same, err)) || same)
            return s;
    }
    for (size_t some; n && !s; n -= some, first += some) {
        some = n < PIECE ? n : PIECE;
        s = zn_entry_read_part(e, x, first, some, err);
        for (size_t i = 0; i < some && !s; i += ZN_W_GROUP, to += zn_wtype_size(t, ZN_W_GROUP))
            *scale++ = zn_quantise(t, to, x + i, ZN_W_GROUP);
    }
    return s;
}
