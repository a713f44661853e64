# SPDX-License-Identifier: MIT
#
# expect.sh - what must come out of cases.scm, for GIMP 2.10 and 3 alike;
# sourced after lib.sh.

# Presets that must be refused, each with its own message, and one of a user.
make_presets () {
  export ZENITH_PRESETS="$ZENITH_PRESETS:$work/presets"
  mkdir -p "$work/presets" "$XDG_DATA_HOME/zenith/presets"
  head='operation=zenith:denoise'
  preset () { printf '%s\n' "name=$1" "$head" "$2" >"$work/presets/$1.preset"; }
  preset broken-line  'strength'
  preset broken-key   'hardness=1'
  preset broken-value 'strength=2.5'
  preset broken-twice "$(printf 'luma=1\nluma=0.5')"
  printf 'name=broken-operation\noperation=gegl:save\npath=/tmp/x\n' >"$work/presets/broken-operation.preset"
  printf 'name=broken-none\n' >"$work/presets/broken-none.preset"
  head -c 20000 /dev/zero | tr '\0' '#' >"$work/presets/broken-size.preset"
  printf 'name=broken-bytes\n\377\376\n' >"$work/presets/broken-bytes.preset"
  mkfifo "$work/presets/broken-fifo.preset"
  printf '[results]\nplug-in-zenith-restore=new-layer-with-mask\nplug-in-zenith-upscale=this-layer\n' \
    >"$XDG_DATA_HOME/zenith/generate.ini"
  printf 'name=My own\n%s\nstrength=0.7\n' "$head" >"$XDG_DATA_HOME/zenith/presets/mine.preset"
}

# An engine that this machine cannot have.
foreign_engine () {
  case $(uname -m) in aarch64|arm*) echo avx2 ;; *) echo neon ;; esac
}

# The names in the shipped presets, for Scheme, without the files in $left_out.
preset_names () {
  for file in "$source_dir"/presets/*.preset; do
    case " ${left_out:-} " in *" $(basename "$file" .preset) "*) continue ;; esac
    grep -q '^operation=zenith:z-image' "$file" || # it needs a prompt
      sed -n 's/^name=\(.*\)/"\1"/p' "$file"
  done
}

# start_scm FILE: the variables that cases.scm needs.
start_scm () {
  cat <<END
(define zn-in "$work/in")
(define zn-out "$work/out")
(define zn-results "$work/results")
(define zn-model "$denoise")
(define zn-latent-model "$latent")
(define zn-face-model "$source_dir/tests/data/golden/diffae.ckpt")
(define zn-zimage "$work/z-image")
(define zn-foreign-engine "$(foreign_engine)")
(define zn-presets '($(preset_names)))
END
}

# history CASE TEXT: the picture's XMP history says so, in the results (GIMP 2.10) or in the saved file.
history () { grep -q "^$1|.*$2" "$work/results" || grep -aq "$2" "$work/out/$1.png"; }
without_history () { ! history "$1" zenith:diffae; }

expect_pictures () {
  for filter in denoise latent; do
    for picture in rgb grey rgb16; do
      check "$filter-$picture" done_ok "$filter-$picture"
      check "$filter-$picture-changed" changed "$work/in/$picture.png" "$work/out/$filter-$picture.png"
    done
    for picture in alpha grey-alpha; do
      check "$filter-$picture" done_ok "$filter-$picture"
      check "$filter-$picture-changed" changed "$work/in/$picture.png" "$work/out/$filter-$picture.png" 32x64+64+0
      for side in in/ "out/$filter-"; do
        image "$work/$side$picture.png" -alpha extract -strip "$work/alpha-of-$(basename "$side").png"
      done
      check "$filter-$picture-alpha-kept" same "$work/alpha-of-in.png" "$work/alpha-of-$filter-.png"
    done
    check "$filter-clear" result_or_sentence "$filter-clear"
    check "$filter-indexed" done_ok "$filter-indexed"
    check "$filter-indexed-changed" changed "$work/in/indexed.png" "$work/out/$filter-indexed.png"
    check "$filter-one" result_or_sentence "$filter-one" one
    check "$filter-small" result_or_sentence "$filter-small" small
  done

  check indexed-note grep -q 'only the colors of its palette' "$work/cases.log"
  check denoise-is-cleaner cleaner "$work/in/clean.png" "$work/in/rgb.png" "$work/out/denoise-rgb.png"
  check denoise-float-is-cleaner cleaner "$work/in/clean.png" "$work/in/rgb.png" "$work/out/float.png"
  for picture in rgb grey rgb16; do
    check "latent-$picture-near" near "$work/in/$picture.png" "$work/out/latent-$picture.png" 16
  done

  # Not a multiple of 257 anywhere would be chance; all of them, lost bits.
  image "$work/out/denoise-rgb16.png" -depth 8 PNG24:"$work/eight.png" 2>/dev/null
  check 16-bit-precision changed "$work/eight.png" "$work/out/denoise-rgb16.png"
  check strength-0 done_ok strength-0
  check strength-0-exact same "$work/in/rgb16.png" "$work/out/strength-0.png"
  check face-0 done_ok face-0
  check face-0-exact same "$work/in/rgb16.png" "$work/out/face-0.png"
  check result-masked done_ok result-masked
  check result-masked-layers grep -q "^result-masked|.*|[^;()]* (Restore);[^;()]*; masked" "$work/results"
  check result-masked-inside changed "$work/in/rgb.png" "$work/out/result-masked.png" 40x40+30+20
  check result-masked-outside same "$work/in/rgb.png" "$work/out/result-masked.png" 28x64+0+0
  check enlarge-layer done_ok enlarge-layer
  check enlarge-layer-in-place grep -q '^enlarge-layer|done|dirty|[^;()]*; 192$' "$work/results"
  check enlarge-image done_ok enlarge-image
  check enlarge-image-all grep -q '^enlarge-image|done|dirty|[^;]*;group; 288 30 ' "$work/results"
  image "$work/in/rgb.png" -filter Catrom -resize 300% $plain "PNG24:$work/in/rgb-300.png"
  check enlarge-image-pixels near "$work/in/rgb-300.png" "$work/out/enlarge-image.png" 20
  for name in video video-one; do
    check $name done_ok $name
    check $name-first changed "$work/in/rgb.png" "$work/out/$name.png" 96x34+0+30
  done
  check video-second changed "$work/in/layer.png" "$work/out/video.png" 40x30+0+0
  check video-one-second same "$work/in/layer.png" "$work/out/video-one.png" 40x30+0+0
  check preset-again refused preset-again 'No preset was applied yet|Noch wurde keine'
  check face-strip done_ok face-strip
  check face-strip-layers grep -q '^face-strip|.*|[^;]* 4/4 (face edited);[^;]* 3/4 (face edited);[^;]* 2/4 (face edited);[^;()]*; ' "$work/results"
  check face-strip-history history face-strip 'zenith:diffae-interpolate'
  check face-blend done_ok face-blend
  check face-blend-name grep -q '^face-blend|.*|[^;]* (face edited); ' "$work/results"
  check face-blend-history history face-blend 'zenith:diffae-interpolate position=0.5'
  check face-loop done_ok face-loop
  check face-loop-layers grep -q '^face-loop|.*|[^;]* 4/4 (face edited);[^;]* 3/4 (face edited);[^;]* 2/4 (face edited);[^;()]*; ' "$work/results"
  check face-strip-fails grep -q '^face-strip-fails|done|clean|[^;()]*; ' "$work/results"
  check face-strip-fails-alone without_history face-strip-fails
  if [ -e "$source_dir/models/zenith-find.safetensors" ]; then
    check face-none refused face-none 'No face was found' rgb
  else
    skip face-none "models/zenith-find.safetensors is not here"
  fi
  check face-selected done_ok face-selected
  check face-selected-inside changed "$work/in/rgb.png" "$work/out/face-selected.png" 40x40+30+20
  check face-selected-elsewhere same "$work/in/rgb.png" "$work/out/face-selected.png" 96x20+0+0
  check face-sliders done_ok face-sliders
  check face-sliders-changed changed "$work/in/rgb.png" "$work/out/face-sliders.png"
  check face-sliders-0 done_ok face-sliders-0
  check face-sliders-0-exact same "$work/in/rgb.png" "$work/out/face-sliders-0.png"
  for case in folders groups; do
    check "teach-$case" done_ok "teach-$case"
    check "teach-$case-report" grep -q "^teach-$case|.*|shin[a-z]*: 6 faces with, 6 without; AUROC [01]\.[0-9]* +- .*attributes\.safetensors" "$work/results"
  done
  for name in shiny shining; do
    check "taught-$name" done_ok "taught-$name"
    check "taught-$name-changed" changed "$work/in/rgb.png" "$work/out/taught-$name.png"
  done
  check face-new done_ok face-new
  check face-new-layer grep -q '^face-new|.*|[^;]* (made-up face);[^;()]*; ' "$work/results"
  check face-new-selection of_size 40x40 "$work/out/face-new.png"
  check face-new-own-size of_size 32x32 "$work/out/face-new-opaque.png"
  check face-new-opaque test "$(image "$work/out/face-new-opaque.png" -alpha extract -format '%[fx:minima]' info:)" = 1
  check generate-new done_ok generate-new
  check generate-new-layers grep -q '^generate-new|.*|a red fox (generated);[^;()]*; ' "$work/results"
  check generate-new-history history generate-new 'zenith:z-image prompt=a red fox seed=3'
  check generate-new-size test "$(image identify -format %wx%h "$work/out/generate-new.png" 2>/dev/null ||
    identify -format %wx%h "$work/out/generate-new.png")" = 128x80
  for picture in rgb rgb16 grey alpha; do
    check "generate-$picture" done_ok "generate-$picture"
    check "generate-$picture-changed" changed "$work/in/$picture.png" "$work/out/generate-$picture.png" 32x64+64+0
    check "generate-in-$picture" done_ok "generate-in-$picture"
    check "generate-in-$picture-inside" changed "$work/in/$picture.png" "$work/out/generate-in-$picture.png" 40x24+30+20
    for outside in 96x20+0+0 96x20+0+44 30x64+0+0 26x64+70+0; do
      # GIMP 3 saves all layers merged: where the two are half transparent, they add up
      case $gimp$picture$outside in 3alpha96*) continue ;; esac
      check "generate-in-$picture-$outside" same "$work/in/$picture.png" "$work/out/generate-in-$picture.png" "$outside"
    done
  done
  check generate-moved done_ok generate-moved
  check generate-moved-inside changed "$work/in/layer.png" "$work/out/generate-moved.png" 12x10+10+7
  check generate-moved-above same "$work/in/layer.png" "$work/out/generate-moved.png" 40x7+0+0
  check generate-moved-right same "$work/in/layer.png" "$work/out/generate-moved.png" 18x30+22+0
  check float done_ok float
  check float-changed changed "$work/in/rgb.png" "$work/out/float.png"
  for mode in latent difference; do
    check "mode-$mode" done_ok "mode-$mode"
    check "mode-$mode-differs" changed "$work/out/latent-rgb.png" "$work/out/mode-$mode.png"
  done
}

expect_places () {
  check selection done_ok selection
  check selection-inside changed "$work/in/rgb.png" "$work/out/selection.png" 40x24+30+20
  check selection-sees-around same "$work/out/denoise-rgb.png" "$work/out/selection.png" 40x24+30+20
  check selection-above same "$work/in/rgb.png" "$work/out/selection.png" 96x20+0+0
  check selection-below same "$work/in/rgb.png" "$work/out/selection.png" 96x20+0+44
  check selection-left same "$work/in/rgb.png" "$work/out/selection.png" 30x64+0+0
  check selection-right same "$work/in/rgb.png" "$work/out/selection.png" 26x64+70+0
  check no-overlap done_ok no-overlap
  check no-overlap-same same "$work/in/rgb.png" "$work/out/no-overlap.png"
  check no-overlap-again refused no-overlap-again 'Nothing of this layer is selected'
  check layer-offset done_ok layer-offset
  check layer-changed changed "$work/in/layer.png" "$work/out/layer-alone.png"
  check layer-offset-same same "$work/out/layer-alone.png" "$work/out/layer-offset.png"
  check large done_ok large
  check mask result_or_sentence mask
  check mask-layer-same same "$work/in/rgb.png" "$work/out/mask.png"
  check channel result_or_sentence channel
  check channel-layer-same same "$work/in/rgb.png" "$work/out/channel.png"
  check channel-enlarge refused channel-enlarge 'a layer can get another size'
  check group refused group 'group'
  check group-layer-same same "$work/in/rgb.png" "$work/out/group.png"
}

# said CASE TEXT: what the case tells of itself.
said () { result_of "$1" | grep -qE -e "$2" || { result_of "$1"; false; }; }

expect_locks () {
  for case in locked-denoise locked-face locked-mask; do
    check "$case" said "$case" '\|refused clean: [^;()]*; .*pixels are locked'
    check "$case-same" same "$work/in/rgb.png" "$work/out/$case.png"
  done
  check locked-group said locked-group '\|refused clean: .*pixels are locked'
  check locked-generate-group said locked-generate-group '\|refused clean: .*pixels are locked'
  check locked-strip said locked-strip '\|done dirty: [^;]* 2/2 \(face edited\);[^;()]*; '
  check locked-generate said locked-generate '\|done dirty: a red fox \(generated\);[^;()]*; '
  for case in locked-strip locked-generate; do
    check "$case-changed" changed "$work/in/rgb.png" "$work/out/$case.png"
  done
}

expect_refusals () {
  check bad-check-file    refused bad-check-file    '/nowhere\.png.*(No such file|nicht gefunden)'
  check bad-no-layer      refused bad-no-layer      'No layer is chosen'

  check bad-no-file       refused bad-no-file       'absent\.safetensors'
  check bad-text-file     refused bad-text-file     'text\.safetensors'
  check bad-other-file    refused bad-other-file    'other\.safetensors'
  check bad-folder        refused bad-folder        'failed: [A-Z]'
  check bad-no-weights    refused bad-no-weights    'weights'
  check bad-face-weights  refused bad-face-weights  'none-such'
  check bad-face-attribute refused bad-face-attribute 'beards'
  check bad-prompt        refused bad-prompt        'prompt'
  check bad-generate-weights refused bad-generate-weights 'transformer/ .12\.3 GB.*Apache.*/in'
  check bad-teach-set     refused bad-teach-set     'no such group'
  check bad-teach-name    refused bad-teach-name    'needs a name'
  check bad-teach-taken   refused bad-teach-taken   "'smile' already"
  check bad-model-word    refused bad-model-word    'fastest.*fast, balanced, best'
  check bad-mode-word     refused bad-mode-word     'reconstruct, latent, difference'
  check bad-engine-word   refused bad-engine-word   'auto, scalar'
  check bad-strength-high refused bad-strength-high '1[.,]6.*0[.,0]* to 1[.,]5'
  check bad-strength-low  refused bad-strength-low  '-0[.,]1.*0[.,0]* to 1[.,]5'
  check bad-sigma-high    refused bad-sigma-high    '101.*0[.,0]* to 100'
  check bad-engine        refused bad-engine        "$(foreign_engine)"
  check bad-preset-unknown   refused bad-preset-unknown   'Nowhere.*High ISO photo'
  check bad-preset-empty     refused bad-preset-empty     'High ISO photo'
  check bad-preset-path      refused bad-preset-path      'no preset'
  check bad-preset-line      refused bad-preset-broken-line      'line 3: .*key=value'
  check bad-preset-key       refused bad-preset-broken-key       'hardness.*strength'
  check bad-preset-value     refused bad-preset-broken-value     '2\.5.*0 to 1\.5'
  check bad-preset-operation refused bad-preset-broken-operation 'gegl:save'
  check bad-preset-twice     refused bad-preset-broken-twice     'luma.*twice'
  check bad-preset-size      refused bad-preset-broken-size      'larger than'
  check bad-preset-bytes     refused bad-preset-broken-bytes     'UTF-8'
  check bad-preset-fifo      refused bad-preset-broken-fifo      'regular file'
  check bad-preset-none      refused bad-preset-broken-none      'no .operation'
  check bad-all-pixels-same same "$work/in/rgb.png" "$work/out/bad.png"
}

of_size () { n=$(identify -format '%wx%h' "$2"); [ "$n" = "$1" ] || { echo "$n: $*"; false; }; }

expect_presets () {
  preset_names | tr -d '"' >"$work/names"
  printf '%s\n' film-scan 'MY OWN' >>"$work/names"
  while read -r name; do
    check "preset $name" done_ok "preset $name"
    case $name in
      Enlarge*) check "preset $name: twice as large" of_size 192x128 "$work/out/preset $name.png" ;;
      *) check "preset $name changed" changed "$work/in/rgb.png" "$work/out/preset $name.png" ;;
    esac
  done <"$work/names"
  check last-values done_ok last-values
}

# changed_text FILE: it was not English.
changed_text () { ! cmp -s "$1" "$1.said" || { echo "every message is English"; false; }; }

expect_all () {
  in_english "$work/results"
  in_english "$work/cases.log"
  case ${LC_ALL:-C} in C*) ;; *) check translated changed_text "$work/results" ;; esac
  expect_pictures
  expect_places
  expect_locks
  expect_refusals
  expect_presets
}

# zenith-batch knows the same presets, and makes the same of them.
check_same_as_batch () {
  if [ -x "$ZENITH_BUILD/batch/zenith-batch" ]; then
    "$ZENITH_BUILD/batch/zenith-batch" --preset "High ISO photo" "$1" "$work/by-batch.png" >"$work/by-batch.log" 2>&1
    check same-as-zenith-batch same "$work/by-batch.png" "$2"
  else
    skip same-as-zenith-batch "this build has no zenith-batch"
  fi
}

# What the document's examples of all filters need, in the folder where they run.
prepare_filters () {
  image photo.png -flop other.png
  cp "$source_dir/models/denoise-fast.safetensors" mine.safetensors
  export ZENITH_MODELS="$ZENITH_MODELS:$work" # has a tiny z-image
}
another () { [ -s "$1" ] && ! cmp -s "$1" doc/photo.png; }
check_filters () {
  for name in film mine restored large lost smile kept between new video fox decoded; do
    check "doc-gimp$gimp-$name" another "doc/$name.png"
  done
}
