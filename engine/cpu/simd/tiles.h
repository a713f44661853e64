/* SPDX-License-Identifier: MIT */
/* tiles.h - the product of tiles.c, over TILE_LOAD(i, from, stride), TILE_STORE(i, to, stride) and TILE_ADD(i, a, b): tile i of
 * 16 floats x 16 += tile a, 16 x 32 bf16, times tile b, 16 pairs x 16.  Tiles 0 .. 3 are the sums. */

/* Tiles 0 .. 3 += the pixels from x on, 16 or 32, times the weights in tiles 6 and 7. */
INLINE void tiles_add(const char *x, size_t x_ld, const bool both)
{
    TILE_LOAD(4, x, x_ld);
    TILE_ADD(0, 4, 6);
    TILE_ADD(1, 4, 7);
    if (both) {
        TILE_LOAD(5, x + 16 * x_ld, x_ld);
        TILE_ADD(2, 5, 6);
        TILE_ADD(3, 5, 7);
    }
}

INLINE void tiles_product(const zn_tiles *g, const bool low, const bool both)
{
    const char *w = g->w;

    TILE_LOAD(0, g->bias, 0);
    TILE_LOAD(1, g->bias + 16, 0);
    if (both) {
        TILE_LOAD(2, g->bias, 0);
        TILE_LOAD(3, g->bias + 16, 0);
    }
    for (int t = 0; t < g->taps; t++)
        for (int c = 0; c < g->chunks; c++, w += low ? 4096 : 2048) {
            const char *x = g->x + g->tap[t] + c * 2 * ZN_TILE;

            TILE_LOAD(6, w, 64);
            TILE_LOAD(7, w + 1024, 64);
            if (low)
                tiles_add(x + g->low, g->x_ld, both);
            tiles_add(x, g->x_ld, both);
            if (!low)
                continue;
            TILE_LOAD(6, w + 2048, 64); /* tiles 4 and 5 are still x */
            TILE_LOAD(7, w + 3072, 64);
            TILE_ADD(0, 4, 6);
            TILE_ADD(1, 4, 7);
            if (both) {
                TILE_ADD(2, 5, 6);
                TILE_ADD(3, 5, 7);
            }
        }
    TILE_STORE(0, g->y, g->y_ld * sizeof(float));
    TILE_STORE(1, g->y + 16, g->y_ld * sizeof(float));
    if (both) {
        TILE_STORE(2, g->y + 16 * g->y_ld, g->y_ld * sizeof(float));
        TILE_STORE(3, g->y + 16 * g->y_ld + 16, g->y_ld * sizeof(float));
    }
}

static ZN_DECL_TILES(tiles)
{
    const bool both = g->pixels > 16;

    if (g->low && both)
        tiles_product(g, true, true);
    else if (g->low)
        tiles_product(g, true, false);
    else if (both)
        tiles_product(g, false, true);
    else
        tiles_product(g, false, false);
}
