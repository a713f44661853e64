/* SPDX-License-Identifier: MIT */
/* tiles.h - the product of tiles.c, over TILE_LOAD(i, from, stride), TILE_STORE(i, to, stride) and TILE_ADD(i, a, b): tile i of
 * 16 floats x 16 += tile a, 16 x 32 bf16, times tile b, 16 pairs x 16.  Tiles 0 .. 3 are the sums. */

/* Tiles 0 .. 3 += the pixels in tiles 4 and, if `both`, 5, times the weights in tiles 6 and, if `wide`, 7. */
INLINE void tiles_add(const bool both, const bool wide)
{
    TILE_ADD(0, 4, 6);
    if (wide)
        TILE_ADD(1, 4, 7);
    if (both)
        TILE_ADD(2, 5, 6);
    if (both && wide)
        TILE_ADD(3, 5, 7);
}

INLINE void tiles_load_x(const char *x, size_t x_ld, const bool both)
{
    TILE_LOAD(4, x, x_ld);
    if (both)
        TILE_LOAD(5, x + 16 * x_ld, x_ld);
}

INLINE void tiles_load_w(const char *w, const bool wide)
{
    TILE_LOAD(6, w, 64);
    if (wide)
        TILE_LOAD(7, w + 1024, 64);
}

INLINE void tiles_product(const zn_tiles *g, const bool low, const bool both, const bool wide)
{
    const char *w = g->w;
    const size_t y_ld = g->y_ld * sizeof(float);

    TILE_LOAD(0, g->bias, 0);
    TILE_LOAD(2, g->bias, 0);
    if (wide) {
        TILE_LOAD(1, g->bias + 16, 0);
        TILE_LOAD(3, g->bias + 16, 0);
    }
    for (int t = 0; t < g->taps; t++)
        for (int c = 0; c < g->chunks; c++, w += low ? 4096 : 2048) {
            const char *x = g->x + g->tap[t] + c * 2 * ZN_TILE;

            tiles_load_w(w, wide);
            if (low) {
                tiles_load_x(x + g->low, g->x_ld, both);
                tiles_add(both, wide);
            }
            tiles_load_x(x, g->x_ld, both);
            tiles_add(both, wide);
            if (low) {
                tiles_load_w(w + 2048, wide);
                tiles_add(both, wide);
            }
        }
    TILE_STORE(0, g->y, y_ld);
    if (wide)
        TILE_STORE(1, g->y + 16, y_ld);
    if (both)
        TILE_STORE(2, g->y + 16 * g->y_ld, y_ld);
    if (both && wide)
        TILE_STORE(3, g->y + 16 * g->y_ld + 16, y_ld);
}

INLINE void tiles_terms(const zn_tiles *g, const bool low)
{
    const bool both = g->pixels > 16, wide = g->outputs > 16;

    if (both && wide)
        tiles_product(g, low, true, true);
    else if (both)
        tiles_product(g, low, true, false);
    else if (wide)
        tiles_product(g, low, false, true);
    else
        tiles_product(g, low, false, false);
}

static ZN_DECL_TILES(tiles)
{
    if (g->low)
        tiles_terms(g, true);
    else
        tiles_terms(g, false);
}
