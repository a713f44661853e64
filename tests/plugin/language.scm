; SPDX-License-Identifier: MIT
;
; language.scm - each filter with its defaults (what is required is given), and each
; preset, for language.sh; numbers have fractions.

(zn-case "denoise" "rgb" (lambda (image drawable) (zn-denoise-again drawable)))
(zn-case "latent" "rgb" (lambda (image drawable) (zn-latent-again drawable)))
(zn-case "reconstruct" "portrait" (lambda (image drawable) (zn-reconstruct-again drawable)))
(zn-case "new-face" "portrait" (lambda (image drawable) (zn-new-face-again drawable)))
(zn-case "face" "portrait" (lambda (image drawable) (zn-face drawable "smile" 0.5 "zenith-face" #t)))
(zn-case "blend" "portrait"
         (lambda (image drawable) (zn-strip drawable (string-append zn-in "/portrait.png") 1 zn-face-model)))
(zn-case "generate" "rgb" (lambda (image drawable) (zn-generate drawable "a red fox" 96 64 0.5 zn-zimage)))
(for-each
  (lambda (name)
    (zn-case (string-append "preset " name) "rgb"
             (lambda (image drawable) (zn-any-preset image drawable name))))
  (append zn-presets '("FILM-SCAN")))
(close-output-port zn-port)
