/* SPDX-License-Identifier: MIT
 *
 * zenith-setup.h - the first use where GIMP itself does not find the GEGL operations: in Flatpak.
 */
#ifndef __ZENITH_SETUP_H__
#define __ZENITH_SETUP_H__

/* Asks, once, whether GIMP shall find them, and does it; after gimp_ui_init(). */
void zn_setup_ask (void);

#endif /* __ZENITH_SETUP_H__ */
