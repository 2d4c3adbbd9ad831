# Reads the public headers and writes C: for every public function that takes a pointer, calls with NULL for one of its
# pointers, or for all of them; the other arguments are objects of tests/test_null_calls.c. A new function, struct of
# options or callback needs no line here; a new opaque type needs a field of struct given there, or the test does not
# compile.
#     awk -f null_calls.awk include/qkv/*.h > null_calls.h
function trim(s) {sub(/^ +/, "", s); sub(/ +$/, "", s); return s}
# Without const, which is also how the name of a struct may begin.
function plain(type) {
    while (match(type, /const([^a-z]|$)/)) type = substr(type, 1, RSTART - 1) substr(type, RSTART + 5)
    gsub(/ +/, " ", type); while (sub(/\* \*/, "**", type)) continue; return trim(type)}
# The parameters of a declaration, split at the commas between them.
function split_parameters(text,    i, c, depth, n, part) {
    n = 0; depth = 0; part = ""
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        if (c == "(" || c == "[") depth++
        if (c == ")" || c == "]") depth--
        if (c == "," && depth == 0) {parameter[++n] = trim(part); part = ""; continue}
        part = part c
    }
    if (trim(part) != "" && trim(part) != "void") parameter[++n] = trim(part)
    return n
}
# The argument for a pointer that is not NULL.
function given(type, name, at,    bare, struct) {
    bare = plain(type)
    if (type ~ /const \*$/ || type ~ /const\*$/) {
        if (bare == "char **") return "given_texts"
        if (bare == "char ***") return "given_text_lists"
        if (bare == "int32_t **") return "given_id_lists"
    }
    if (bare ~ /^struct qkv_[a-z_0-9]+ \*$/) {
        struct = bare
        sub(/^struct qkv_/, "", struct); sub(/ \*$/, "", struct)
        if (!(struct in defined)) return "given." struct
        used[struct] = 1
        return "&made_" struct
    }
    if (bare == "char *" && type ~ /const/) return "given_text(\"" name "\")"
    if (bare ~ /^qkv_[a-z_]+ \*$/) {sub(/ \*$/, "", bare); return "stub_" bare}
    return "(" type ")(void *)given_room[" at "]"
}
function value(type, name,    struct) {
    if (type ~ /^struct qkv_/) {struct = type; sub(/^struct qkv_/, "", struct); used[struct] = 1; return "made_" struct}
    if (type == "size_t" && name ~ /^(i|b|h|first|layer|row|index|at)$/) return "0"
    if (type == "char") return "'{'"
    if (type == "double") return "0.5"
    if (type == "bool") return "false"
    if (type ~ /^enum /) return "(" type ")0"
    return "1"
}
function judge(    text, head, inside, n, i, name, type, at, pointers, body, names, arguments) {
    text = declaration
    gsub(/[ \t]+/, " ", text)
    sub(/^(QKV_API|static inline) /, "", text); sub(/;.*/, "", text)
    match(text, /qkv_[a-z_0-9]+\(/)
    head = trim(substr(text, 1, RSTART - 1))
    name = substr(text, RSTART, RLENGTH - 1)
    inside = substr(text, RSTART + RLENGTH); sub(/\)$/, "", inside)
    if (name ~ /_defaults$/ && inside == "void" && head ~ /^struct qkv_[a-z_]+$/) {type = head; sub(/^struct qkv_/, "", type); defaults[type] = name}
    n = split_parameters(inside)
    pointers = 0; body = ""; names = ""; arguments = ""
    for (i = 1; i <= n; i++) {
        text = parameter[i]
        if (text ~ /\(\*[a-z_]+\)\(/) { # a function, written out
            match(text, /\(\*[a-z_]+\)/); at = substr(text, RSTART + 2, RLENGTH - 3)
            type = text; sub(/\(\*[a-z_]+\)/, "(*" at ")", type)
            body = body "    " type " = GIVEN(" pointers ") ? given_" at " : NULL;\n"
            names = names (names == "" ? "" : ",") at; pointers++
        } else {
            if (text ~ /\[[A-Z_a-z0-9]*\]$/) {sub(/\[[A-Z_a-z0-9]*\]$/, "", text); sub(/[a-z_A-Z0-9]+$/, "*&", text)}
            match(text, /[a-zA-Z_0-9]+$/); at = substr(text, RSTART); type = trim(substr(text, 1, RSTART - 1))
            if (type ~ /\*$/ || type ~ /\* ?const$/) {
                body = body "    " type (type ~ /\*$/ ? "" : " ") at " = GIVEN(" pointers ") ? " given(type, at, i) " : NULL;\n"
                names = names (names == "" ? "" : ",") at; pointers++
            } else body = body "    " type " " at " = " value(type, at) ";\n"
        }
        arguments = arguments (i > 1 ? ", " : "") at
    }
    functions++
    if (!pointers) return
    calls++
    printed = printed "static void call_" name "(size_t null) {\n" body
    printed = printed (head == "enum qkv_status" ? "    given_status = " : "    (void)") name "(" arguments ");\n}\n"
    table = table "    {\"" name "\", \"" names "\", " pointers ", " (head == "enum qkv_status" ? "true" : "false") ", call_" name "},\n"
}
open {declaration = declaration " " $0; sub(/ \{$/, ";", declaration); $0 = declaration; if ($0 ~ /;/) {open = 0; list[++count] = declaration} next}
/^struct qkv_[a-z_0-9]+ \{/ {struct = substr($2, 5); defined[struct] = 1}
/^typedef [a-z]+ qkv_[a-z_]+\(/ {callback[++callbacks] = $0}
/^(QKV_API|static inline) / {declaration = $0; sub(/ \{$/, ";", declaration); $0 = declaration; if ($0 ~ /;/) list[++count] = declaration; else open = 1}
END {
    for (k = 1; k <= count; k++) {declaration = list[k]; judge()}
    print "/* Made of the public headers by tests/null_calls.awk. */"
    for (k = 1; k <= callbacks; k++) {
        text = callback[k]
        sub(/^typedef /, "static ", text); sub(/qkv_/, "stub_qkv_", text); sub(/;.*/, "", text)
        print text " {\n" (text ~ /^static void/ ? "" : "    return true;\n") "}"
    }
    for (struct in used) print "static struct qkv_" struct " made_" struct ";"
    print "static void make_structs(void) {"
    for (struct in used) if (struct in defaults) print "    made_" struct " = " defaults[struct] "();"
    print "}"
    printf "%s", printed
    print "static const struct call calls[] = {\n" table "};"
    print "enum { FUNCTIONS = " functions + 0 ", CALLS = " calls + 0 " };"
}
