; SPDX-License-Identifier: MIT
;
; gimp3.scm - the words of cases.scm in GIMP 3's Script-Fu, dialect v3.

(define zn-8-bit PRECISION-U8-NON-LINEAR)

(define (zn-open file)    (gimp-file-load RUN-NONINTERACTIVE file))
(define (zn-new width height)
  (let* ((image (gimp-image-new width height RGB))
         (layer (gimp-layer-new image "l" width height RGB-IMAGE 100 LAYER-MODE-NORMAL)))
    (gimp-image-insert-layer image layer -1 0)
    (gimp-drawable-fill layer FILL-WHITE)
    image))
(define (zn-top image)    (vector-ref (gimp-image-get-layers image) 0))
(define (zn-delete image) (gimp-image-delete image))
(define (zn-clean image)  (gimp-image-clean-all image))
(define (zn-dirty? image) (gimp-image-is-dirty image))

(define zn-xmp #f)
(define (zn-save image file)
  (gimp-image-resize-to-layers image)
  (file-png-export #:run-mode RUN-NONINTERACTIVE #:image image #:file file
                   #:options -1 #:include-color-profile #f #:include-thumbnail #f
                   #:include-exif #f #:include-xmp zn-xmp #:include-iptc #f
                   #:save-transparent #t)
  (set! zn-xmp #f))

(define (zn-select image x y width height)
  (gimp-image-select-rectangle image CHANNEL-OP-REPLACE x y width height))

(define (zn-of drawable) (gimp-item-get-image drawable))

(define (zn-denoise d model strength luma chroma detail sigma engine)
  (plug-in-zenith-denoise #:run-mode RUN-NONINTERACTIVE #:image (zn-of d)
                          #:drawables (vector d)
                          #:model model #:strength strength #:luma luma
                          #:chroma chroma #:detail detail #:sigma sigma
                          #:engine engine))

(define (zn-denoise-nothing image model)
  (plug-in-zenith-denoise #:run-mode RUN-NONINTERACTIVE #:image image
                          #:drawables (vector) #:model model #:sigma 25))

(define (zn-denoise-again d)
  (plug-in-zenith-denoise #:run-mode RUN-WITH-LAST-VALS #:image (zn-of d)
                          #:drawables (vector d)))

(define (zn-latent d model mode weights engine)
  (plug-in-zenith-latent-preview #:run-mode RUN-NONINTERACTIVE #:image (zn-of d)
                                 #:drawables (vector d)
                                 #:model model #:mode mode #:weights weights
                                 #:engine engine))

; without last values these are the defaults
(define (zn-latent-again d)
  (plug-in-zenith-latent-preview #:run-mode RUN-WITH-LAST-VALS #:image (zn-of d) #:drawables (vector d)))
(define (zn-reconstruct-again d)
  (plug-in-zenith-diffae-reconstruct #:run-mode RUN-WITH-LAST-VALS #:image (zn-of d) #:drawables (vector d)))
(define (zn-restore-again d)
  (plug-in-zenith-restore #:run-mode RUN-WITH-LAST-VALS #:image (zn-of d) #:drawables (vector d)))
(define (zn-preset-again d)
  (plug-in-zenith-apply-preset #:run-mode RUN-WITH-LAST-VALS #:image (zn-of d) #:drawables (vector d)))
(define (zn-upscale-again d)
  (plug-in-zenith-upscale #:run-mode RUN-WITH-LAST-VALS #:image (zn-of d) #:drawables (vector d)))
(define (zn-enlarge-image image d)
  (plug-in-zenith-enlarge-image #:run-mode RUN-NONINTERACTIVE #:image image #:drawables (vector d)
                                #:scale 3 #:model "small"))
(define (zn-video image d n)
  (plug-in-zenith-wan-video #:run-mode RUN-NONINTERACTIVE #:image image #:drawables (vector d)
                            #:frames n #:weights "random:8"))
; it has a mask, and is edited itself
(define (zn-masked? layer)    (and (not (= -1 (gimp-layer-get-mask layer))) (not (gimp-layer-get-edit-mask layer))))
(define (zn-flatten image)    (gimp-image-flatten image))
(define (zn-width drawable)   (gimp-drawable-get-width drawable))
(define (zn-guide image)      (gimp-image-get-guide-position image (gimp-image-find-next-guide image 0)))
(define (zn-resolution image) (car (gimp-image-get-resolution image)))
(define (zn-new-face-again d)
  (plug-in-zenith-diffae-sample #:run-mode RUN-WITH-LAST-VALS #:image (zn-of d) #:drawables (vector d)))

(define (zn-face d attribute amount model find)
  (plug-in-zenith-diffae-manipulate #:run-mode RUN-NONINTERACTIVE #:image (zn-of d)
                                    #:drawables (vector d)
                                    #:attribute attribute #:amount amount #:steps 4
                                    #:stochastic-steps 4 #:detail 1 #:model model
                                    #:find find))

(define (zn-sliders d smile age model)
  (plug-in-zenith-diffae-manipulate #:run-mode RUN-NONINTERACTIVE #:image (zn-of d)
                                    #:drawables (vector d)
                                    #:steps 4 #:stochastic-steps 4 #:detail 1 #:model model
                                    #:find #f #:smile smile #:age age))

(define (zn-new-face d model)
  (plug-in-zenith-diffae-sample #:run-mode RUN-NONINTERACTIVE #:image (zn-of d)
                                #:drawables (vector d)
                                #:seed 1 #:steps 4 #:latent-steps 4 #:model model))

(define (zn-strip d path n model)
  (plug-in-zenith-diffae-interpolate #:run-mode RUN-NONINTERACTIVE #:image (zn-of d)
                                     #:drawables (vector d)
                                     #:position 0.5 #:path path #:steps 4
                                     #:stochastic-steps 4 #:model model #:strip n #:find #f))

(define (zn-loop d path n model)
  (plug-in-zenith-diffae-interpolate #:run-mode RUN-NONINTERACTIVE #:image (zn-of d)
                                     #:drawables (vector d)
                                     #:position 0.5 #:path path #:steps 4
                                     #:stochastic-steps 4 #:model model #:strip n #:find #f
                                     #:loop #t))

; a string: how well it was learned
(define (zn-teach d name with without)
  (plug-in-zenith-diffae-teach #:run-mode RUN-NONINTERACTIVE #:image (zn-of d)
                               #:drawables (vector d) #:name name #:with with #:without without))

(define (zn-generate d prompt width height change weights)
  (plug-in-zenith-z-image #:run-mode RUN-NONINTERACTIVE #:image (zn-of d)
                          #:drawables (vector d) #:prompt prompt #:seed 3 #:steps 2
                          #:width width #:height height #:change change #:feather 4
                          #:weights weights))

(define (zn-layer-names image)
  (map (lambda (layer) (gimp-item-get-name layer))
       (vector->list (gimp-image-get-layers image))))
; scripts cannot read it here: it goes into the next file that is saved
(define (zn-metadata image) (set! zn-xmp #t) "")

(define (zn-preset d name)
  (plug-in-zenith-apply-preset #:run-mode RUN-NONINTERACTIVE #:image (zn-of d)
                               #:drawables (vector d) #:preset name))

(define (zn-add-mask layer)
  (let ((mask (gimp-layer-create-mask layer ADD-MASK-COPY)))
    (gimp-layer-add-mask layer mask)
    mask))
(define (zn-discard-mask layer) (gimp-layer-remove-mask layer MASK-DISCARD))

(define (zn-add-channel image)
  (let ((channel (gimp-channel-new image "c" 96 64 50 '(255 0 0))))
    (gimp-image-insert-channel image channel -1 0)
    channel))

(define (zn-add-group image)
  (let ((group (gimp-group-layer-new image "g")))
    (gimp-image-insert-layer image group -1 1)
    group))
(define (zn-add-layer image file)
  (gimp-image-insert-layer image (gimp-file-load-layer RUN-NONINTERACTIVE image file) -1 0))
(define (zn-put-into image layer group) (gimp-image-reorder-item image layer group 0))
(define (zn-check-file file) (plug-in-zenith-check-file #:filename file))
(define (zn-lock item) (gimp-item-set-lock-content item TRUE))
(define (zn-fill-group group name files)
  (gimp-item-set-name group name)
  (for-each
    (lambda (file)
      (gimp-image-insert-layer (zn-of group)
                               (gimp-file-load-layer RUN-NONINTERACTIVE (zn-of group) file)
                               group 0))
    files))
