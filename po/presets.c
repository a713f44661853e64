/* SPDX-License-Identifier: MIT
 *
 * presets.c - names and descriptions of presets/, for translators only; never compiled.
 * tests/plugin/po.sh compares it with the presets.
 */
/* clang-format off */
N_ ("Enlarge for print")
N_ ("Twice as wide and high, as faithful as it gets")
N_ ("Eyes open")
N_ ("For a face that blinks")
N_ ("Film scan, colour noise only")
N_ ("Takes the color speckles of a scan and leaves the grain")
N_ ("Gentle")
N_ ("Half of the noise goes, fine texture stays")
N_ ("Gentle smile")
N_ ("Half of a smile more")
N_ ("High ISO photo")
N_ ("Camera noise at ISO 3200 and above: all of it goes, a little texture stays")
N_ ("JPEG clean-up")
N_ ("Blocks and ringing of a strongly compressed picture")
N_ ("Latent preview")
N_ ("What a small autoencoder keeps of the picture")
N_ ("Old photo")
N_ ("Blur, blocks and noise of an old picture: what there is of each is found")
N_ ("Phone at night")
N_ ("Blotchy color and coarse grain of a small sensor in little light")
N_ ("Strong")
N_ ("As clean as it gets, at the price of texture")
N_ ("Ten years younger")
N_ ("About ten years less, as photographs show them")
