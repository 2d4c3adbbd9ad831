"""Writes tests/pattern_cases.h: where Hugging Face tokenizers cuts texts by Split patterns.

Made with tokenizers 0.23.3 (PyPI):  pip install tokenizers==0.23.3 && python3 tests/pattern_cases.py > tests/pattern_cases.h
"""
import tokenizers
from tokenizers import Regex, pre_tokenizers

PATTERNS = r"""
\h+
\H+
[\h]+
[^\h]+
[a-z&&[^aeiou]]+
[^a-z&&[^aeiou]]+
[\w&&[^\d_]]+
[a-cx-z[0-9]]+
[^[^a-c]x]
[[^a]b]+
[\p{L}&&\p{Greek}]+
[\p{Greek}]+
\p{Latin}+|\p{Han}+
\p{^L}+
\P{^L}+
[\p{^L}a]+
\p{Punct}+
[[:punct:]]+
[[:alpha:]]+
[[:^alpha:]]+
[^[:space:]]+
[[:upper:]][[:lower:]]*
[[:word:]]+
\w+
\W+
[\w]+
[^\w]+
\b
\B
\b\w
\w\b
^.
.$
^
$
\A.|.\z
.\Z
.+
(?m:.+)
(?m)a.+
(?-m:.)+
\N+
\O+
\R
\v+
\s+$
\s+(?!\S)
a{2}+
a{3}*
a{3}*?
a{3}*+
a{2}{3}
a{2,3}*
(?:ab){2}*
a+{2}
a{2}++
a{2}*b
a{2,3}+b?
a{2}?
a{1,2}?
a{,2}
a{,}|x{y}|{
a*+a|b++
(?>a|ab)c
x*
x*|b
(?=b)
(?<=a)
(?<!a)b
(?<=ab|c)d
(?i)k
(?i:'s|'t|'re|'ve|'m|'ll|'d)|\p{L}+
(?i:[a-z]+)x
(?i:[^k]+)
(?i:a)b|(?i:B)A
(?i)traD|x
(?im:a.)
(?<word>\w)-(?'other'\w)
(a)(b)?|(c|d)+
[]a]+
[^]a]+
[a\-c]+
[-a]+|[b-]+
[\]\[]+
[\b]|\e|\f
\x41|\x{e9}|\u4e2d
\'|\.|\-|\ 
]|}
 ?[^(\s|[.,!?…。，、।۔،])]+
[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s
[\S]+
[^\S\n]+
[\D\n]+
(?:a?|x)b
(?>[a-z]+|)[a-z]|(?>[A-Z]+|T)[a-z]
(?:[a-z]|[A-Z]+){2}?
""".strip("\n").split("\n")

TEXTS = [
    "the café's 2024 a-b\n\nSTRASSE Straße ſtK\u212akb x{y} \t ab aab aaaabc {,}",
    "Ab\u00b2 x\u0301\u03b1\u0391 \u4e2d\u6587! f00d,cafe…;]^[\\ \r\n$+<=>~\x0b'LL we'll\u2028z \u01c5\u2160\u180e-\n",
    "aaxxb\na\n",
]


def c_string(text):
    return '"' + "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else "\\%03o" % b for b in text.encode()) + '"'


def ends(pattern, text):
    n, out = 0, []
    for piece, _ in pre_tokenizers.Split(Regex(pattern), "isolated").pre_tokenize_str(text):
        n += len(piece.encode())
        out.append(n)
    return out


print("/* Made by pattern_cases.py from Hugging Face tokenizers " + tokenizers.__version__ + ": where pieces end, closed by 0. */")
print("/* clang-format off */")
print("static const char *const pattern_texts[] = {")
for text in TEXTS:
    print("    " + c_string(text) + ",")
print("};\nstatic const struct { const char *pattern; unsigned char ends[%d][128]; } pattern_cases[] = {" % len(TEXTS))
for pattern in PATTERNS:
    rows = ", ".join("{" + ", ".join(map(str, ends(pattern, t) + [0])) + "}" for t in TEXTS)
    print("    {" + c_string(pattern) + ",\n     {" + rows + "}},")
print("};\n/* clang-format on */")
