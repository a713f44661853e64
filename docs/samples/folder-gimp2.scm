; SPDX-License-Identifier: MIT
; A folder of pictures with a preset: see docs/scripting.md.
(define (zenith-one preset from to)
  (plug-in-zenith-check-file from)
  (let* ((image    (car (gimp-file-load RUN-NONINTERACTIVE from from)))
         (drawable (car (gimp-image-get-active-drawable image))))
    (plug-in-zenith-apply-preset RUN-NONINTERACTIVE image drawable preset)
    (gimp-file-save RUN-NONINTERACTIVE image drawable to to)
    (gimp-image-delete image)))

(define (zenith-folder preset from-folder to-folder pattern)
  (let* ((files   (cadr (file-glob (string-append from-folder "/" pattern) 1)))
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
