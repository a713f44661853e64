; SPDX-License-Identifier: MIT
;
; case.scm - what a case is, for cases.scm and language.scm.  zn-in, zn-out (folders) and
; zn-results (a file), zn-model, zn-latent-model and zn-foreign-engine are set before.
;
; A case opens a picture, does something, saves the picture under the case's
; name, and writes a line "name|done or error|dirty or clean|sentence".

(define zn-port (open-output-file zn-results))
(define zn-sentence "")

; Script-Fu's catch forgets the message; this keeps it.
(define (zn-throw . arguments)
  (set! zn-sentence
        (apply string-append
               (map (lambda (x) (if (string? x) x "")) arguments)))
  (if (more-handlers?)
      (apply (pop-handler))
      (apply error arguments)))
(set! *error-hook* zn-throw)

(define (zn-one-line text)
  (list->string (map (lambda (c) (if (char=? c #\newline) #\space c))
                     (string->list text))))

(define (zn-record name status dirty)
  (display (string-append name "|" status "|" (if dirty "dirty" "clean") "|"
                          (zn-one-line zn-sentence))
           zn-port)
  (newline zn-port))

; Runs action on a clean image, then saves it unless the file is "".
(define (zn-case-save name image file action)
  (zn-clean image)
  (set! zn-sentence "")
  (let* ((status (catch "error" (action) "done"))
         (dirty  (zn-dirty? image)))
    (zn-record name status dirty)
    (if (not (string=? file ""))
        (catch (begin (zn-record (string-append name "-save") "error" #t) #f)
               (zn-save image (string-append zn-out "/" file ".png"))))))

(define (zn-case name picture action)
  (let ((image (zn-open (string-append zn-in "/" picture ".png"))))
    (zn-case-save name image name
                  (lambda () (action image (zn-top image))))
    (zn-delete image)))

; a preset in a picture without a face: what is selected is one
(define (zn-any-preset image drawable name)
  (if (member name '("Eyes open" "Gentle smile" "Ten years younger"))
      (zn-select image 30 20 40 40))
  (zn-preset drawable name)
  (gimp-selection-none image))
