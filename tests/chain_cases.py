"""Writes tests/chain_cases.json: small tokenizer.json files that use every kind of link, and what Hugging Face tokenizers (pip install
tokenizers) makes of texts: ids, offsets in bytes, decoded text.

    python3 tests/chain_cases.py > tests/chain_cases.json"""
import base64, json, struct, sys
from tokenizers import Tokenizer, __version__

TEXTS = ["Hello  wörld, it's 42!", "  ab\tABC-the--End ", "Ünï ｆｕｌｌ ﬁ 日本 e\u0301a\u0323\u0301 İ", "a<mask> b <mask>c x</s>y word", "", "zz ▁a`` 3.14159 ½", "  かなカナー漢字 Приветabc"]
CHARS = sorted(set("".join(TEXTS) + "▁Ġabcdefghijklmnopqrstuvwxyz")) 


def bpe(merges=("a b", "h e", "l l", "t h", "th e"), extra=(), **more):
    keys = ["<unk>"] + CHARS[:60] + list("ABCDEHabcdefghilnortuwxyz▁Ġ") + [m.replace(" ", "") for m in merges] + list(extra)
    return {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
            "byte_fallback": False, "ignore_merges": False, "vocab": {k: i for i, k in enumerate(dict.fromkeys(keys))}, "merges": list(merges), **more}


def words(keys): return {"type": "WordLevel", "vocab": {k: i for i, k in enumerate(["<unk>"] + keys)}, "unk_token": "<unk>"}


def file(model, normalizer=None, pre=None, post=None, decoder=None, added=()):
    n = len(model["vocab"])
    tokens = [{"id": n + i, "content": c, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True, **f} for i, (c, f) in enumerate(added)]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens, "normalizer": normalizer, "pre_tokenizer": pre, "post_processor": post,
            "decoder": decoder, "model": model}


def charsmap():
    """ﬁ -> fi, ½ -> 1/2 by a double array with a root for each."""
    strings, units = b"fi\0" + b"1/2\0", [0] * 2304
    # one root at 0 whose offset is 256; children at 256 ^ byte
    def unit(offset, leaf, label): return (offset << 10) | (leaf << 8) | label
    units[0] = unit(256, 0, 0); at = 512
    for key, value in (("ﬁ".encode(), 0), ("½".encode(), 3)):
        base = 256
        for i, b in enumerate(key):
            last = i == len(key) - 1
            units[base ^ b] = unit((base ^ b) ^ at, int(last), b); base = at; at += 256
        units[base] = value | 1 << 31
    return base64.b64encode(struct.pack("<I", 4 * len(units)) + struct.pack("<2304I", *units) + strings).decode()


seq = lambda kind, *parts: {"type": "Sequence", kind: list(parts)}
T = lambda t, **more: {"type": t, **more}
REGEX = {"Regex": "\\s+|-"}
MASK = [("<mask>", {"lstrip": True}), ("</s>", {"rstrip": True}), ("wo", {"single_word": True, "special": False, "normalized": True})]
uni = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["▁", -2.0], ["▁H", -3.0], ["el", -3.5], ["l", -4.0], ["lo", -4.1], ["▁wo", -5.0], ["r", -4.0], ["a", -3.0], ["b", -3.0],
       ["ab", -5.5], ["fi", -4.0], ["i", -5.0], ["f", -5.0], ["t", -4.0], ["▁a", -3.9]]}
CASES = {}


def tie():
    """He scores what H and e score together, but for the last bit, in which the library reads it."""
    import random
    from fractions import Fraction
    random.seed(1)
    read = lambda x: float(int(repr(x)[1:].replace(".", ""))) / 10.0 ** len(repr(x).split(".")[1])
    while True:
        he = -random.uniform(2, 15)
        e = he + 1.0
        if read(he) > -he and read(e) == -e and Fraction(e) - 1 == Fraction(he): return {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["H", -1.0], ["e", e], ["He", he]]}


for n in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip", "StripAccents", "Nmt", "ByteLevel"):
    CASES["normalizer " + n] = file(bpe(), T(n, **({"strip_left": True, "strip_right": True} if n == "Strip" else {})), decoder=T("Fuse"))
CASES["accents"] = file(bpe(), seq("normalizers", T("NFD"), T("StripAccents"), T("Lowercase")), T("WhitespaceSplit"), decoder=T("BPEDecoder", suffix="l"))
CASES["bert"] = file({"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##", "max_input_chars_per_word": 8,
                      "vocab": {k: i for i, k in enumerate(["<unk>", "hell", "##o", "un", "##i", "it", "'", "s", "42", "!", ",", "wor", "##ld", "ab", "##c", "-", "日", "the"])}},
                     T("BertNormalizer", clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True), T("BertPreTokenizer"), None,
                     T("WordPiece", prefix="##", cleanup=True), MASK)
CASES["prepend, replace"] = file(bpe(), seq("normalizers", T("Prepend", prepend="▁"), T("Replace", pattern={"String": " "}, content="▁"), T("Replace", pattern={"Regex": "l+"}, content="b")), None, None,
                                 seq("decoders", T("Replace", pattern={"String": "▁"}, content=" "), T("ByteFallback"), T("Fuse"), T("Strip", content=" ", start=1, stop=0)), MASK)
for b in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
    for inv in (False, True): CASES[f"split {b} {inv}"] = file(bpe(), None, T("Split", pattern=REGEX, behavior=b, invert=inv))
for n, more in (("Whitespace", {}), ("WhitespaceSplit", {}), ("Punctuation", {"behavior": "Contiguous"}), ("Digits", {"individual_digits": True}), ("Digits", {"individual_digits": False}),
                ("CharDelimiterSplit", {"delimiter": "-"}), ("FixedLength", {"length": 3}), ("Metaspace", {"replacement": "▁", "prepend_scheme": "first", "split": True}),
                ("Metaspace", {"replacement": "▁", "prepend_scheme": "always", "split": False}), ("Metaspace", {"replacement": "▁", "prepend_scheme": "never", "split": True})):
    CASES[n + "".join(f" {v}" for v in more.values())] = file(bpe(), None, T(n, **more), None, T("Metaspace", replacement="▁", prepend_scheme="always", split=True), MASK)
for prefix in (False, True):
    for trim in (False, True):
        CASES[f"byte level {prefix} {trim}"] = file(bpe(("Ġ w", "h e", "l l"), ignore_merges=True), None, T("ByteLevel", add_prefix_space=prefix, trim_offsets=True, use_regex=True),
                                                    T("ByteLevel", add_prefix_space=prefix, trim_offsets=trim, use_regex=True), T("ByteLevel", add_prefix_space=True, trim_offsets=True, use_regex=True), MASK)
CASES["fused unknown, affixes"] = file(bpe(("a ##b",), ("ab", "##b", "##c</w>", "##y</w>", "a</w>"), fuse_unk=True, continuing_subword_prefix="##", end_of_word_suffix="</w>"), None, T("WhitespaceSplit"), None, T("BPEDecoder", suffix="</w>"))
CASES["fallback"] = file(bpe((), ["<0x%02X>" % i for i in range(256)], byte_fallback=True, fuse_unk=True), None, None, None, seq("decoders", T("ByteFallback"), T("Fuse")))
CASES["unigram"] = file(uni, T("Precompiled", precompiled_charsmap=charsmap()), seq("pretokenizers", T("WhitespaceSplit"), T("Metaspace", replacement="▁", prepend_scheme="always", split=True)), None,
                        T("Metaspace", replacement="▁", prepend_scheme="always", split=True), MASK)
CASES["unigram, a tie"] = file(tie(), None, None, None, T("Fuse"))
CASES["unigram, pieces twice"] = file({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.0], ["b", -2.0], ["ab", -2.5], ["ab", -9.5], ["a", -3.0], ["e", -1.0], ["<unk>", -2.0]]}, None, None, None, T("Fuse"))
CASES["ids far apart"] = file({"type": "WordLevel", "unk_token": "<unk>", "vocab": {"<unk>": 3, "it": 70000, "'": 9, "a": 1234567, "the": 100000}}, T("Lowercase"), T("Whitespace"), None, T("Fuse"))
CASES["ids far apart, bpe"] = file({**bpe(), "vocab": {k: 50 * i * i for k, i in bpe()["vocab"].items()}}, None, None, None, T("Fuse"))
CASES["scripts"] = file(words(["Hello", "日本", "abc"]), None, T("UnicodeScripts"), None, T("Fuse"), MASK)
CASES["words"] = file(words(["it", "'", "s", "42", "the", "a", "b"]), T("Lowercase"), T("Whitespace"), None, T("CTC", pad_token="<unk>", word_delimiter_token="'", cleanup=True))


def main():
    cases = []
    for name, case in CASES.items():
        t = Tokenizer.from_str(json.dumps(case))
        results = []
        for text in TEXTS:
            e = t.encode(text, add_special_tokens=False); place = [len(text[:i].encode()) for i in range(len(text) + 1)]
            results.append([" ".join(map(str, e.ids)), " ".join(f"{place[a]}-{place[b]}" for a, b in e.offsets), t.decode(e.ids)])
        cases.append({"name": name, "file": case, "results": results})
    head = json.dumps({"made": f"tests/chain_cases.py with tokenizers {__version__}", "texts": TEXTS})[:-1]
    print(head + ', "cases": [\n' + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]}")


main()
