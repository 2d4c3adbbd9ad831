# Writes docs/api.md from the public headers, qkv.h first: its conventions, then every call by subject.
#     awk -f scripts/api.awk include/qkv.h include/qkv/context.h ...
# A run of comments and code without a blank line between is an item: its text, then its code. The comment at the top of
# a header begins a section, and one of the form "---- name ----" a section inside.

function escape(text) { # as Markdown shows it
    gsub(/&/, "\\&amp;", text)
    gsub(/</, "\\&lt;", text)
    gsub(/\*/, "\\*", text)
    gsub(/\|/, "\\|", text)
    gsub(/\[/, "\\[", text)
    return text
}
function say(text) { # paragraphs, lists, and code that is indented by four spaces
    if (text ~ /^    /) {
        if (!listing) body = body "\n"
        body = body text "\n"
        listing = 1
        return
    }
    if (listing) body = body "\n"
    listing = 0
    body = body escape(text) "\n"
}
function item(    names, list, n, i, name) {
    if (code != "") {
        n = split(code, list, "\n")
        names = ""
        for (i = 1; i <= n; i++)
            if (match(list[i], /qkv_[a-z0-9_]+\(/) && list[i] !~ /^[ #}]/) {
                name = substr(list[i], RSTART, RLENGTH - 1)
                names = names "<a id=\"" name "\"></a>"
                index_of = index_of (index_of == "" ? "" : ",\n") "[`" name "`](#" name ")"
                calls++
            }
        section = section (names == "" ? "" : names "\n\n") body (body == "" ? "" : "\n") "```c\n" code "```\n\n"
    } else if (body != "") section = section body "\n"
    body = code = ""
    listing = 0
}
function flush_section() {
    item()
    if (title != "") {
        print "## " title "\n"
        if (index_of != "") print index_of ".\n"
        printf "%s", section
    }
    section = index_of = ""
}
function comment_line(text) {
    sub(/^[ \t]*\/?\*+ ?/, "", text)
    sub(/ *\*\/[ \t]*$/, "", text)
    return text
}
FNR == 1 {
    if (NR > 1) flush_section()
    top = 1
    title = ""
}
FILENAME == "include/qkv.h" { # the manual's first page: its comment alone
    if ($0 ~ /^#/) {top = 0; title = "Conventions"; next}
    if (!top) next
    text = comment_line($0)
    if (FNR == 1) next
    if (text == "Conventions.") next
    say(text)
    next
}
top && /^\/\*/ {
    match($0, /qkv\/[a-z]+\.h/)
    title = substr($0, RSTART + 4, RLENGTH - 6)
    title = toupper(substr(title, 1, 1)) substr(title, 2)
    say("`" substr($0, RSTART, RLENGTH) "`: " comment_line(substr($0, RSTART + RLENGTH + 2)))
    top = $0 ~ /\*\// ? 0 : 2
    next
}
top == 2 {
    say(comment_line($0))
    if ($0 ~ /\*\//) {top = 0; item()}
    next
}
/^QKV_API .*_options_init\(/ {hidden = $0 !~ /;/; next} # one text about all of them is in qkv/context.h
hidden {hidden = $0 !~ /;/; next}
bodied {bodied = $0 != "}"; next}
/^#if defined\(QKV_BUILDING\)/ {getline; getline; getline; next}
/^#ifdef QKV_EXPERIMENTAL|^#ifndef QKV_PUBLIC|^#define QKV_PUBLIC|^#include|^#ifdef __cplusplus|^extern "C"|^#endif|^#undef/ {next}
/^}$/ {next} # of extern "C"
/^\/\* ----/ {
    item()
    text = $0
    gsub(/^\/\* -+ *| *-+ *(\*\/)?$/, "", text)
    sub(/\. *$/, "", text)
    section = section "### " toupper(substr(text, 1, 1)) substr(text, 2) "\n\n"
    inside = $0 !~ /\*\//
    next
}
/^$/ {if (!open) item(); else code = code "\n"; next}
inside {
    say(comment_line($0))
    if ($0 ~ /\*\//) inside = 0
    next
}
/^\/\*/ && !open {
    if (code != "") item()
    say(comment_line($0))
    inside = $0 !~ /\*\//
    next
}
{
    line = $0
    sub(/ +\\$/, " \\", line)
    sub(/^(QKV_API|static inline) /, "", line)
    if (line ~ /^[^=;]*\) \{$/) {sub(/ \{$/, ";", line); bodied = 1} # a function with its body
    if (line ~ /^(struct|enum|typedef struct)[^;]*\{ *(\/\*.*)?$/) open = 1
    if (line ~ /^}/) open = 0
    code = code line "\n"
}
END {
    flush_section()
    if (calls < 300) {print "only " calls " calls" >"/dev/stderr"; exit 1}
}
