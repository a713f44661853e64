; SPDX-License-Identifier: MIT
;
; cases.scm - the same cases for GIMP 2.10 and 3.  What differs between the two
; is in gimp2.scm and gimp3.scm, what a case is in case.scm, all loaded before this.

(define (zn-smooth drawable) (zn-denoise drawable zn-model 1 1 1 0 25 "auto"))
(define (zn-show drawable)   (zn-latent drawable zn-latent-model "reconstruct" "" "auto"))

; every kind of picture, both filters
(for-each
  (lambda (picture)
    (zn-case (string-append "denoise-" picture) picture
             (lambda (image drawable) (zn-smooth drawable)))
    (zn-case (string-append "latent-" picture) picture
             (lambda (image drawable) (zn-show drawable))))
  '("rgb" "alpha" "clear" "grey" "grey-alpha" "indexed" "rgb16" "one" "small"))

(for-each
  (lambda (mode)
    (zn-case (string-append "mode-" mode) "rgb"
             (lambda (image drawable) (zn-latent drawable zn-latent-model mode "" "auto"))))
  '("latent" "difference"))

(zn-case "strength-0" "rgb16"
  (lambda (image drawable) (zn-denoise drawable zn-model 0 1 1 0 25 "auto")))

(zn-case "face-0" "rgb16"
  (lambda (image drawable) (zn-face drawable "smile" 0 "zenith-face" #t)))
; what the layers are called afterwards, and what the picture's history says
(define (zn-names image)
  (string-append (apply string-append
                        (map (lambda (name) (string-append name ";")) (zn-layer-names image)))
                 " "))
(define (zn-tell image)
  (set! zn-sentence (string-append (zn-names image) (zn-metadata image))))
(zn-case "face-strip" "rgb"
  (lambda (image drawable)
    (zn-strip drawable (string-append zn-in "/rgb.png") 4 zn-face-model)
    (zn-tell image)))
(zn-case "face-blend" "rgb"
  (lambda (image drawable)
    (zn-strip drawable (string-append zn-in "/rgb.png") 0 zn-face-model)
    (zn-tell image)))
; there and back, to a layer of the image: itself
(zn-case "face-loop" "rgb"
  (lambda (image drawable)
    (zn-loop drawable (car (zn-layer-names image)) 3 zn-face-model)
    (zn-tell image)))
(zn-case "face-strip-fails" "rgb"
  (lambda (image drawable)
    (catch #f (zn-strip drawable "/nowhere.png" 4 zn-face-model))
    (zn-tell image)))
; where results go: what the dialogs remember, see expect.sh
(define (zn-say image . more)
  (set! zn-sentence (apply string-append (zn-names image) more)))
(zn-case "result-masked" "rgb"
  (lambda (image drawable)
    (zn-select image 30 20 40 40)
    (zn-restore-again drawable)
    (zn-say image (if (zn-masked? (zn-top image)) "masked" "bare"))
    (gimp-selection-none image)
    (zn-flatten image)))
(zn-case "enlarge-layer" "rgb"
  (lambda (image drawable)
    (zn-upscale-again drawable)
    (zn-say image (number->string (zn-width drawable)))))
; another layer, in a group and locked; the image's size is the last word
(zn-case "enlarge-image" "rgb"
  (lambda (image drawable)
    (let ((group (zn-add-group image)))
      (zn-fill-group group "group" (list (string-append zn-in "/layer.png")))
      (zn-add-mask drawable)
      (zn-lock drawable)
      (gimp-image-add-hguide image 10)
      (zn-enlarge-image image drawable)
      (zn-say image (number->string (zn-width drawable)) " " (number->string (zn-guide image)) " "
              (number->string (zn-resolution image)))
      (zn-discard-mask drawable))))
; two layers are two frames; with one frame the upper one stays
(define (zn-frames image drawable n)
  (zn-add-layer image (string-append zn-in "/layer.png"))
  (zn-video image drawable n)
  (zn-flatten image))
(zn-case "video" "rgb" (lambda (image drawable) (zn-frames image drawable 0)))
(zn-case "video-one" "rgb" (lambda (image drawable) (zn-frames image drawable 1)))
(zn-case "preset-again" "rgb" (lambda (image drawable) (zn-preset-again drawable)))
; no face is there; what is selected is one
(zn-case "face-none" "rgb"
  (lambda (image drawable) (zn-face drawable "smile" 1 "zenith-face" #t)))
(zn-case "face-selected" "rgb"
  (lambda (image drawable)
    (zn-select image 30 20 40 40)
    (zn-face drawable "smile" 1 "zenith-face" #t)
    (gimp-selection-none image)))
; several at once, and what the model lacks
(zn-case "face-sliders" "rgb"
  (lambda (image drawable) (zn-sliders drawable 0.5 -0.25 "zenith-face")))
(zn-case "face-sliders-0" "rgb"
  (lambda (image drawable) (zn-sliders drawable 0 0 "zenith-face")))
; an attribute from two folders, and from two groups; both are attributes then
(define (zn-set folder)
  (map (lambda (n) (string-append zn-in "/" folder "/" n ".png")) '("1" "2" "3" "4" "5" "6")))
(zn-case "teach-folders" "rgb"
  (lambda (image drawable)
    (set! zn-sentence (zn-teach drawable "shiny" (string-append zn-in "/bright") (string-append zn-in "/dark")))))
(zn-case "teach-groups" "rgb"
  (lambda (image drawable)
    (zn-fill-group (zn-add-group image) "some are bright" (zn-set "bright"))
    (zn-fill-group (zn-add-group image) "some are dark" (zn-set "dark"))
    (set! zn-sentence (zn-teach drawable "shining" "some are bright" "some are dark"))))
(for-each
  (lambda (name)
    (zn-case (string-append "taught-" name) "rgb"
      (lambda (image drawable) (zn-face drawable name 1 "zenith-face" #f))))
  '("shiny" "shining"))
(zn-case "face-new" "rgb"
  (lambda (image drawable)
    (zn-select image 30 20 40 40)
    (zn-new-face drawable zn-face-model)
    (gimp-selection-none image)
    (zn-tell image)
    (gimp-image-remove-layer image drawable)))
; it is opaque up to its edges
(zn-case "face-new-opaque" "clear"
  (lambda (image drawable)
    (zn-new-face drawable zn-face-model)
    (gimp-image-remove-layer image drawable)))

; a picture from a prompt is a layer of its own above the one that was chosen
(zn-case "generate-new" "rgb"
  (lambda (image drawable)
    (zn-generate drawable "a red fox" 128 80 1 zn-zimage)
    (zn-tell image)))
(for-each
  (lambda (picture)
    (zn-case (string-append "generate-" picture) picture
             (lambda (image drawable) (zn-generate drawable "a red fox" 64 64 0.5 zn-zimage)))
    (zn-case (string-append "generate-in-" picture) picture
             (lambda (image drawable)
               (zn-select image 30 20 40 24)
               (zn-generate drawable "a red fox" 64 64 1 zn-zimage)
               (gimp-selection-none image))))
  '("rgb" "rgb16" "grey" "alpha"))
(zn-case "generate-moved" "layer"
  (lambda (image drawable)
    (gimp-image-resize image 200 150 70 33)
    (zn-select image 80 40 12 10)
    (zn-generate drawable "a red fox" 64 64 1 zn-zimage)
    (gimp-selection-none image)))

(zn-case "float" "rgb"
  (lambda (image drawable)
    (gimp-image-convert-precision image PRECISION-FLOAT-LINEAR)
    (zn-smooth drawable)
    (gimp-image-convert-precision image zn-8-bit)))

; places
(zn-case "selection" "rgb"
  (lambda (image drawable) (zn-select image 30 20 40 24) (zn-smooth drawable)))

(zn-case "no-overlap" "rgb"
  (lambda (image drawable)
    (gimp-image-resize image 300 200 0 0)
    (zn-select image 200 150 50 40)
    (zn-clean image)
    (zn-smooth drawable)
    (gimp-selection-none image)))

; a user who repeats the filter there is told
(zn-case "no-overlap-again" "rgb"
  (lambda (image drawable)
    (gimp-image-resize image 300 200 0 0)
    (zn-select image 200 150 50 40)
    (zn-clean image)
    (zn-denoise-again drawable)))

(zn-case "layer-alone" "layer"
  (lambda (image drawable) (zn-smooth drawable)))
(zn-case "layer-offset" "layer"
  (lambda (image drawable)
    (gimp-image-resize image 200 150 70 33)
    (zn-smooth drawable)))

; 100 megapixels: memory stays bounded, and only the selection costs time
(let ((image (zn-new 10000 10000)))
  (zn-select image 4000 5000 128 128)
  (zn-case-save "large" image "" (lambda () (zn-smooth (zn-top image))))
  (zn-delete image))

; not a layer
(let* ((image (zn-open (string-append zn-in "/rgb.png")))
       (layer (zn-top image))
       (mask  (zn-add-mask layer)))
  (zn-case-save "mask" image "" (lambda () (zn-smooth mask)))
  (zn-discard-mask layer)
  (zn-save image (string-append zn-out "/mask.png"))
  (let ((channel (zn-add-channel image)))
    (zn-case-save "channel" image "channel" (lambda () (zn-smooth channel)))
    (zn-case-save "channel-enlarge" image "" (lambda () (zn-upscale-again channel))))
  (let ((group (zn-add-group image)))
    (zn-case-save "group" image "group" (lambda () (zn-smooth group))))
  (zn-delete image))

; locked pixels: nothing is written, and no layer is called edited; what makes a layer needs only
; the group around it to be unlocked
(define (zn-locked name item-of action)
  (zn-case name "rgb"
    (lambda (image drawable)
      (zn-lock (item-of image drawable))
      (zn-clean image)
      (let* ((failed (catch #t (action drawable) #f))
             (said   zn-sentence)
             (dirty  (zn-dirty? image)))
        (set! zn-sentence (string-append (if failed "refused " "done ") (if dirty "dirty: " "clean: ")
                                         (zn-names image) said))))))
(define (zn-itself image drawable) drawable)
(define (zn-around image drawable)
  (let ((group (zn-add-group image)))
    (zn-put-into image drawable group)
    group))
(zn-locked "locked-denoise" zn-itself zn-smooth)
(zn-locked "locked-face" zn-itself (lambda (d) (zn-face d "smile" 1 "zenith-face" #f)))
(zn-locked "locked-group" zn-around zn-smooth)
(define zn-its-mask #f)
(zn-locked "locked-mask"
  (lambda (image drawable) (set! zn-its-mask (zn-add-mask drawable)) drawable)
  (lambda (d) (zn-smooth zn-its-mask)))
(zn-locked "locked-strip" zn-itself
  (lambda (d) (zn-strip d (string-append zn-in "/rgb.png") 2 zn-face-model)))
(zn-locked "locked-generate" zn-itself (lambda (d) (zn-generate d "a red fox" 64 64 0.5 zn-zimage)))
(zn-locked "locked-generate-group" zn-around (lambda (d) (zn-generate d "a red fox" 64 64 1 zn-zimage)))

; What must be refused with a sentence.  All of them share one picture, which
; must be what it was after the last.
(define zn-bad-image (zn-open (string-append zn-in "/rgb.png")))
(define (zn-bad name action)
  (zn-case-save (string-append "bad-" name) zn-bad-image ""
                (lambda () (action (zn-top zn-bad-image)))))

(zn-bad "no-file"
  (lambda (d) (zn-latent d zn-latent-model "reconstruct" (string-append zn-in "/absent.safetensors") "auto")))
(zn-bad "text-file"
  (lambda (d) (zn-latent d zn-latent-model "reconstruct" (string-append zn-in "/text.safetensors") "auto")))
(zn-bad "other-file"
  (lambda (d) (zn-latent d zn-latent-model "reconstruct" (string-append zn-in "/other.safetensors") "auto")))
(zn-bad "folder"
  (lambda (d) (zn-latent d zn-latent-model "reconstruct" zn-out "auto")))
(zn-bad "no-weights"
  (lambda (d) (zn-latent d "taesana" "reconstruct" "" "auto")))
(zn-bad "face-weights"
  (lambda (d) (zn-face d "smile" 1 "none-such" #t)))
(zn-bad "face-attribute"
  (lambda (d) (zn-face d "beards" 1 zn-face-model #f)))
(zn-bad "teach-set"
  (lambda (d) (zn-teach d "shinier" "no such group" (string-append zn-in "/dark"))))
(zn-bad "teach-name"
  (lambda (d) (zn-teach d "" (string-append zn-in "/bright") (string-append zn-in "/dark"))))
(zn-bad "teach-taken"
  (lambda (d) (zn-teach d "smile" (string-append zn-in "/bright") (string-append zn-in "/dark"))))
(zn-bad "prompt"
  (lambda (d) (zn-generate d "" 64 64 1 zn-zimage)))
(zn-bad "generate-weights"
  (lambda (d) (zn-generate d "a red fox" 64 64 1 zn-in)))
(zn-bad "engine"
  (lambda (d) (zn-denoise d zn-model 1 1 1 0 25 zn-foreign-engine)))
(zn-bad "model-word"
  (lambda (d) (zn-denoise d "fastest" 1 1 1 0 25 "auto")))
(zn-bad "mode-word"
  (lambda (d) (zn-latent d zn-latent-model "" "" "auto")))
(zn-bad "engine-word"
  (lambda (d) (zn-latent d zn-latent-model "reconstruct" "" "AUTO")))
(zn-bad "strength-high"
  (lambda (d) (zn-denoise d zn-model 1.6 1 1 0 25 "auto")))
(zn-bad "strength-low"
  (lambda (d) (zn-denoise d zn-model -0.1 1 1 0 25 "auto")))
(zn-bad "sigma-high"
  (lambda (d) (zn-denoise d zn-model 1 1 1 0 101 "auto")))
(zn-bad "check-file" (lambda (d) (zn-check-file "/nowhere.png")))
(zn-bad "no-layer" (lambda (d) (zn-denoise-nothing zn-bad-image zn-model)))
(zn-bad "preset-unknown" (lambda (d) (zn-preset d "Nowhere")))
(zn-bad "preset-empty"   (lambda (d) (zn-preset d "")))
(zn-bad "preset-path"    (lambda (d) (zn-preset d "../../etc/passwd")))
(for-each
  (lambda (name)
    (zn-bad (string-append "preset-" name) (lambda (d) (zn-preset d name))))
  '("broken-line" "broken-key" "broken-value" "broken-operation" "broken-twice"
    "broken-size" "broken-bytes" "broken-fifo" "broken-none"))

(zn-save zn-bad-image (string-append zn-out "/bad.png"))
(zn-delete zn-bad-image)

; presets: all that there are, one by its file's name, one of the user
(for-each
  (lambda (name)
    (zn-case (string-append "preset " name) "rgb"
             (lambda (image drawable) (zn-any-preset image drawable name))))
  (append zn-presets '("film-scan" "MY OWN")))

(zn-case "last-values" "rgb"
  (lambda (image drawable) (zn-denoise-again drawable)))

(close-output-port zn-port)
