; SPDX-License-Identifier: MIT
;
; gimp2.scm - the words of cases.scm in GIMP 2.10's Script-Fu.

(define zn-8-bit PRECISION-U8-GAMMA)

(define (zn-open file)    (car (gimp-file-load RUN-NONINTERACTIVE file file)))
(define (zn-new width height)
  (let* ((image (car (gimp-image-new width height RGB)))
         (layer (car (gimp-layer-new image width height RGB-IMAGE "l" 100 LAYER-MODE-NORMAL))))
    (gimp-image-insert-layer image layer 0 0)
    (gimp-drawable-fill layer FILL-WHITE)
    image))
(define (zn-top image)    (aref (cadr (gimp-image-get-layers image)) 0))
(define (zn-delete image) (gimp-image-delete image))
(define (zn-clean image)  (gimp-image-clean-all image))
(define (zn-dirty? image) (= TRUE (car (gimp-image-is-dirty image))))

(define (zn-save image file)
  (gimp-image-resize-to-layers image)
  (file-png-save RUN-NONINTERACTIVE image (zn-top image) file file
                 FALSE 6 FALSE FALSE FALSE FALSE TRUE))

(define (zn-select image x y width height)
  (gimp-image-select-rectangle image CHANNEL-OP-REPLACE x y width height))

(define (zn-of drawable) (car (gimp-item-get-image drawable)))

(define (zn-denoise d model strength luma chroma detail sigma engine)
  (plug-in-zenith-denoise RUN-NONINTERACTIVE (zn-of d) d
                          model strength luma chroma detail sigma engine))

; where no layer is active, Script-Fu gets -1
(define (zn-denoise-nothing image model)
  (plug-in-zenith-denoise RUN-NONINTERACTIVE image -1 model 1 1 1 0 25 "auto"))

(define (zn-denoise-again d)
  (plug-in-zenith-denoise RUN-WITH-LAST-VALS (zn-of d) d "" 0 0 0 0 0 ""))

(define (zn-latent d model mode weights engine)
  (plug-in-zenith-latent-preview RUN-NONINTERACTIVE (zn-of d) d
                                 model mode weights engine))

; without last values these are the defaults
(define (zn-latent-again d)
  (plug-in-zenith-latent-preview RUN-WITH-LAST-VALS (zn-of d) d "" "" "" ""))
(define (zn-reconstruct-again d)
  (plug-in-zenith-diffae-reconstruct RUN-WITH-LAST-VALS (zn-of d) d "" 1 1 0 0 0 0 "" TRUE))
(define (zn-new-face-again d)
  (plug-in-zenith-diffae-sample RUN-WITH-LAST-VALS (zn-of d) d 0 1 1 "" ""))

(define (zn-restore-again d)
  (plug-in-zenith-restore RUN-WITH-LAST-VALS (zn-of d) d 0 0 0 0 ""))
(define (zn-preset-again d)
  (plug-in-zenith-apply-preset RUN-WITH-LAST-VALS (zn-of d) d ""))
(define (zn-upscale-again d)
  (plug-in-zenith-upscale RUN-WITH-LAST-VALS (zn-of d) d 2 "" 0 0 ""))
(define (zn-enlarge-image image d)
  (plug-in-zenith-enlarge-image RUN-NONINTERACTIVE image d 3 "small" 0 0 "auto"))
(define (zn-video image d n)
  (plug-in-zenith-wan-video RUN-NONINTERACTIVE image d n "random:8" "auto" "auto"))
; it has a mask, and is edited itself
(define (zn-masked? layer)
  (and (not (= -1 (car (gimp-layer-get-mask layer)))) (= FALSE (car (gimp-layer-get-edit-mask layer)))))
(define (zn-flatten image)    (gimp-image-flatten image))
(define (zn-width drawable)   (car (gimp-drawable-width drawable)))
(define (zn-guide image)      (car (gimp-image-get-guide-position image (car (gimp-image-find-next-guide image 0)))))
(define (zn-resolution image) (car (gimp-image-get-resolution image)))

(define (zn-face d attribute amount model find)
  (plug-in-zenith-diffae-manipulate RUN-NONINTERACTIVE (zn-of d) d
                                    attribute amount 4 4 1 model 0 0 0 0 "auto" (if find TRUE FALSE)))

; what has all arguments, those that came later last
(define (zn-sliders d smile age model)
  (plug-in-zenith-diffae-manipulate-more RUN-NONINTERACTIVE (zn-of d) d
                                         "smile" 0 4 4 1 model 0 0 0 0 "auto" FALSE
                                         smile 0 0 age 0 1 "auto"))

(define (zn-new-face d model)
  (plug-in-zenith-diffae-sample RUN-NONINTERACTIVE (zn-of d) d 1 4 4 model "auto"))

(define (zn-strip d path n model)
  (plug-in-zenith-diffae-interpolate RUN-NONINTERACTIVE (zn-of d) d
                                     0.5 path 4 4 model 0 0 0 0 "auto" n FALSE))

(define (zn-loop d path n model)
  (plug-in-zenith-diffae-interpolate-more RUN-NONINTERACTIVE (zn-of d) d
                                          0.5 path 4 4 model 0 0 0 0 "auto" n FALSE TRUE "auto"))

; a string: how well it was learned
(define (zn-teach d name with without)
  (car (plug-in-zenith-diffae-teach RUN-NONINTERACTIVE (zn-of d) d name with without)))

(define (zn-generate d prompt width height change weights)
  (plug-in-zenith-z-image RUN-NONINTERACTIVE (zn-of d) d
                          prompt 3 2 width height change 4 weights "auto"))

(define (zn-layer-names image)
  (map (lambda (layer) (car (gimp-item-get-name layer)))
       (vector->list (cadr (gimp-image-get-layers image)))))
(define (zn-metadata image) (car (gimp-image-get-metadata image)))

(define (zn-preset d name)
  (plug-in-zenith-apply-preset RUN-NONINTERACTIVE (zn-of d) d name))

(define (zn-add-mask layer)
  (let ((mask (car (gimp-layer-create-mask layer ADD-MASK-COPY))))
    (gimp-layer-add-mask layer mask)
    mask))
(define (zn-discard-mask layer) (gimp-layer-remove-mask layer MASK-DISCARD))

(define (zn-add-channel image)
  (let ((channel (car (gimp-channel-new image 96 64 "c" 50 '(255 0 0)))))
    (gimp-image-insert-channel image channel 0 0)
    channel))

(define (zn-add-group image)
  (let ((group (car (gimp-layer-group-new image))))
    (gimp-image-insert-layer image group 0 1)
    group))
(define (zn-add-layer image file)
  (gimp-image-insert-layer image (car (gimp-file-load-layer RUN-NONINTERACTIVE image file)) 0 0))
(define (zn-put-into image layer group) (gimp-image-reorder-item image layer group 0))
(define (zn-check-file file) (plug-in-zenith-check-file file))
(define (zn-lock item) (gimp-item-set-lock-content item TRUE))
(define (zn-fill-group group name files)
  (gimp-item-set-name group name)
  (for-each
    (lambda (file)
      (gimp-image-insert-layer (zn-of group)
                               (car (gimp-file-load-layer RUN-NONINTERACTIVE (zn-of group) file))
                               group 0))
    files))
