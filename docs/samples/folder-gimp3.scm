; SPDX-License-Identifier: MIT
; A folder of pictures with a preset: see docs/scripting.md.
(script-fu-use-v3)

(define (zenith-one preset from to)
  (plug-in-zenith-check-file #:filename from)
  (let* ((image     (gimp-file-load RUN-NONINTERACTIVE from))
         (drawables (gimp-image-get-selected-drawables image)))
    (plug-in-zenith-apply-preset #:run-mode RUN-NONINTERACTIVE #:image image
                                 #:drawables drawables #:preset preset)
    (gimp-file-save RUN-NONINTERACTIVE image to)
    (gimp-image-delete image)))

(define (zenith-folder preset from-folder to-folder pattern)
  (let* ((files   (file-glob #:pattern (string-append from-folder "/" pattern)
                             #:filename-encoding #t))
         (total   (length files))
         (done    0)
         (there   0)
         (failed  0))
    (for-each
      (lambda (from)
        (let ((to (string-append to-folder "/" (car (reverse (strbreakup from "/"))))))
          (cond
            ((file-exists? to) (set! there (+ there 1)))
            ((catch #f (zenith-one preset from to) #t) (set! done (+ done 1)))
            (else (set! failed (+ failed 1))
                  (gimp-message (string-append "failed: " from))))
          (gimp-message (string-append (number->string (+ done there failed))
                                       " of " (number->string total)))))
      files)
    (gimp-message (string-append (number->string done) " done, "
                                 (number->string there) " there already, "
                                 (number->string failed) " failed"))))

(zenith-folder "High ISO photo" "photos" "clean" "*.png")
