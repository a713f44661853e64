/* SPDX-License-Identifier: MIT */
/* wino_weights.h - the transform of weights for winograd.c. */

/* a and b are so few that they stay in L1; rows of w and u are contiguous. */
INLINE void wino_kernel(float *u, size_t u_pos, const float *w, size_t w_tap, const float *a, const float *b, size_t n,
                        const int p)
{
    for (size_t i = 0; i < n; i += VL) {
        vf v[9];

        UNROLL_FOR (int t = 0; t < 9; t++)
            v[t] = vf_load(w + (size_t)t * w_tap + i);
        for (int r = 0; r < p; r++) {
            float *to = u + (size_t)(r * p) * u_pos + i;
            vf h[3];

            UNROLL_FOR (int t = 0; t < 3; t++)
                h[t] = vf_fma(vf_set(a[3 * r]), v[t],
                              vf_fma(vf_set(a[3 * r + 1]), v[3 + t], vf_mul(vf_set(a[3 * r + 2]), v[6 + t])));
            UNROLL_FOR (int j = 0; j < p; j++)
                vf_store(to + (size_t)j * u_pos,
                         vf_fma(vf_set(b[3 * j]), h[0],
                                vf_fma(vf_set(b[3 * j + 1]), h[1], vf_mul(vf_set(b[3 * j + 2]), h[2]))));
        }
    }
}

static ZN_DECL_WINO_WEIGHTS(ZN_FN(wino_weights))
{
    if (side == 6)
        wino_kernel(u, u_pos, w, w_tap, down, across, n, 6);
    else
        wino_kernel(u, u_pos, w, w_tap, down, across, n, 8);
}
