/* SPDX-License-Identifier: MIT
 *
 * gexiv2-any.h - gexiv2 up to 0.14, and from 0.16 on, where the functions that give an error have lost
 * their try_.
 */
#ifndef __ZENITH_GEXIV2_ANY_H__
#define __ZENITH_GEXIV2_ANY_H__

#include <gexiv2/gexiv2.h>

#if GEXIV2_CHECK_VERSION(0, 15, 0)
#define gexiv2_metadata_try_clear_tag gexiv2_metadata_clear_tag
#define gexiv2_metadata_try_has_tag gexiv2_metadata_has_tag
#define gexiv2_metadata_try_generate_xmp_packet gexiv2_metadata_generate_xmp_packet
#define gexiv2_metadata_try_set_tag_string gexiv2_metadata_set_tag_string
#define gexiv2_metadata_try_set_xmp_tag_struct gexiv2_metadata_set_xmp_tag_struct
#define gexiv2_metadata_try_unregister_all_xmp_namespaces                                          \
  gexiv2_metadata_unregister_all_xmp_namespaces
#endif

#endif /* __ZENITH_GEXIV2_ANY_H__ */
