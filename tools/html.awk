# SPDX-License-Identifier: MIT
# html.awk - the subset of Markdown that docs/ uses, as HTML: headings, paragraphs, lists, tables, code, links, images.
# Usage: awk -v title=Denoise -v 'pages=denoise manual/denoise' [-v dir=manual/] [-v lang=de] [-v controls=FILE] -f html.awk page.md >page.html
# Links lead to the web and to these pages (paths below docs/); other links become plain text.  Pictures are shown in a page of
# the manual, which has a dir.  A line "<!-- controls PROCEDURE -->" becomes the table of that filter's controls (docs/controls.c).

function inline(s,   out, at, n) {
  gsub(/&/, "\\&amp;", s); gsub(/</, "\\&lt;", s); gsub(/>/, "\\&gt;", s)
  out = ""
  while (match(s, /`[^`]+`/)) { # code is taken literally
    at = RSTART; n = RLENGTH
    out = out emphasis(substr(s, 1, at - 1)) "<code>" substr(s, at + 1, n - 2) "</code>"
    s = substr(s, at + n)
  }
  return out emphasis(s)
}
# A path below docs/, of a link in a page of dir.
function below(path) {
  path = dir path
  while (path ~ /[^\/]+\/\.\.\//) sub(/[^\/]+\/\.\.\//, "", path)
  return path
}
function emphasis(s,   m, text, url, page) {
  while (match(s, /!?\[[^\]]*\]\([^)]*\)/)) {
    m = substr(s, RSTART, RLENGTH)
    text = m; sub(/^!?\[/, "", text); sub(/\]\(.*/, "", text)
    url = m; sub(/.*\]\(/, "", url); sub(/\)$/, "", url); page = url; sub(/\.md(#.*)?$/, "", page)
    if (m ~ /^!/) m = dir ? "<img src=\"" url "\" alt=\"" text "\"><br><em>" text "</em>" : "<em>" text "</em>"
    else if (url ~ /^(https?:|#)/) m = "<a href=\"" url "\">" text "</a>"
    else if (index(" " pages " ", " " below(page) " ")) m = "<a href=\"" page ".html" (url ~ /#/ ? substr(url, index(url, "#")) : "") "\">" text "</a>"
    else m = text # not installed
    s = substr(s, 1, RSTART - 1) m substr(s, RSTART + RLENGTH)
  }
  while (match(s, /\*\*[^*]+\*\*/))
    s = substr(s, 1, RSTART - 1) "<b>" substr(s, RSTART + 2, RLENGTH - 4) "</b>" substr(s, RSTART + RLENGTH)
  while (match(s, /\*[^* ]([^*]*[^* ])?\*/))
    s = substr(s, 1, RSTART - 1) "<em>" substr(s, RSTART + 1, RLENGTH - 2) "</em>" substr(s, RSTART + RLENGTH)
  return s
}
function close_all() {
  if (state == "p") print "</p>"
  else if (state == "ul" || state == "ol") print "</li></" state ">"
  else if (state == "table") print "</table>"
  state = ""
}
function row(line, tag,   n, cell, i) {
  gsub(/^\| */, "", line); gsub(/ *\|$/, "", line)
  n = split(line, cell, / *\| */)
  printf "<tr>"
  for (i = 1; i <= n; i++) printf "<%s>%s</%s>", tag, inline(cell[i]), tag
  print "</tr>"
}
function control_table(procedure,   line, part) {
  print "<table>"
  while ((getline line < controls) > 0)
    if (split(line, part, "\t") == 3 && part[1] == procedure)
      printf "<tr><td>%s</td><td>%s</td></tr>\n", inline(part[2]), inline(part[3])
  close(controls)
  print "</table>"
}
BEGIN {
  print "<!DOCTYPE html>\n<html lang=\"" (lang ? lang : "en") "\"><head><meta charset=\"utf-8\"><title>Zenith: " title "</title>"
  print "<style>body{font-family:sans-serif;max-width:50em;margin:2em auto;line-height:1.45;padding:0 1em}"
  print "table{border-collapse:collapse}td,th{border:1px solid #bbb;padding:.3em .6em;text-align:left;vertical-align:top}"
  print "img{max-width:100%}pre{background:#f2f2f2;padding:.7em;overflow:auto}code{background:#f2f2f2}</style></head><body>"
}
/^```/ { if (code) print "</pre>"; else { close_all(); print "<pre>" } code = !code; next }
code { gsub(/&/, "\\&amp;"); gsub(/</, "\\&lt;"); print; next }
/^<!-- controls / { close_all(); control_table($3); next }
/^<!--/ { next }
/^#+ / {
  close_all(); n = index($0, " ") - 1
  id = tolower(substr($0, n + 2)); gsub(/[^a-z0-9 _-]/, "", id); gsub(/ /, "-", id) # as tests/unit/docs.sh checks it
  printf "<h%d id=\"%s\">%s</h%d>\n", n, id, inline(substr($0, n + 2)), n
  next
}
/^[ \t]*$/ { close_all(); next }
/^\|[-| :]+\|$/ { next }
/^\|/ { if (state != "table") { close_all(); print "<table>"; state = "table"; row($0, "th") } else row($0, "td"); next }
/^(- |[0-9]+\. )/ {
  kind = /^-/ ? "ul" : "ol"
  text = $0; sub(/^(- |[0-9]+\. )/, "", text)
  if (state == kind) print "</li>"; else { close_all(); print "<" kind ">"; state = kind }
  printf "<li>%s\n", inline(text); next
}
{ if (state != "p" && state != "ul" && state != "ol") { close_all(); print "<p>"; state = "p" } print inline($0) }
END { close_all(); print "</body></html>" }
