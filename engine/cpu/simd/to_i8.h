/* SPDX-License-Identifier: MIT */
/* to_i8.h - inputs of products of integers (kernels.h), quantised as zn_quantise_input does, to the bit. */

static ZN_DECL_TO_I8(ZN_FN(to_i8))
{
    enum { UNIT = 4 * DOT8_DEPTH };
    const int groups = (k + ZN_W_GROUP - 1) / ZN_W_GROUP;
    char *q = (char *)tile + UNIT * row;
    float *scale = (float *)(void *)((char *)tile + (size_t)groups * ZN_W_GROUP * (size_t)of) + DOT8_DEPTH * row;
    int32_t *start = (int32_t *)(void *)(scale - DOT8_DEPTH * row + groups * of) + row;

    for (; k > 0; k -= ZN_W_GROUP, x += ZN_W_GROUP, scale += DOT8_DEPTH * of, start += of) {
        float rest[ZN_W_GROUP] = { 0 };
        const float *from = x;
        int8_t bytes[ZN_W_GROUP];
        float max, times;

        if (k < ZN_W_GROUP)
            from = memcpy(rest, x, (size_t)k * sizeof *x);
        max = vf_largest(from);
        times = max > 1e-30f ? 127 / max : 0;
        for (int i = 0; i < ZN_W_GROUP; i += 16)
            vq_from(bytes + i, from + i, times);
        for (int i = 0; i < DOT8_DEPTH; i++)
            scale[i] = max / 127;
        if (DOT8_EXCESS) {
            int sum = 0;

            for (int i = 0; i < ZN_W_GROUP; i++)
                sum += bytes[i];
            *start = -sum * zn_dot8_excess(type);
        }
        for (int i = 0; i < ZN_W_GROUP; i += UNIT, q += UNIT * of)
            memcpy(q, bytes + i, UNIT);
    }
}
