"""Small models of SentencePiece and small ranks of tiktoken, and what the packages sentencepiece (0.2.3) and tiktoken
(0.14) make of random texts: tests/golden/spm.

    pip install sentencepiece tiktoken protobuf
    python spm_cases.py OUT_DIR SEED

NAME.model or FAMILY.tiktoken is the file; NAME.jsonl has a line for each text: {"text", "ids", "decoded"}.
"""

import base64
import json
import os
import random
import sys
import tempfile
import unicodedata

import sentencepiece
import tiktoken
from tiktoken._educational import SimpleBytePairEncoding

TEXT = """The quick brown fox jumps over the lazy dog, and the dog sleeps in the sun.
There is a house in the city of the north where the river meets the sea.
She sells sea shells by the sea shore; the shells she sells are surely seashells.
Numbers such as 12, 345 and 2024 stand in the text, and 3.14 too.
It's not what they've said, isn't it? They'll say that we'd better go.
for (int i = 0; i < n; i++) { sum += a[i] * b[i]; }
le café est près de la forêt, déjà vu, naïve, garçon, œuvre
Der Bär läuft über die Straße und grüßt die Mädchen.
""".strip().split("\n")
RULES = ["FB01\t66 69", "2460\t31", "65 301\tE9", "65 301 323\t45", "3000\t20", "A\t20", "9\t20", "41\t61", "FFFD\t20",
         "3A9 301\t38F", "200B\t"]
BITS = ["the", " the", " ", "  ", "   ", "\n", "\t", "\u3000", "a", "e", "ee", "s", "ss", "she", "sea", "in", "ing", "1",
        "12", "2024", ".", ", ", "'s", "'ll", "A", "é", "e\u0301", "e\u0301\u0323", "\u0301", "\ufb01", "\u2460",
        "\u2460\u0301", "\u03a9\u0301", "\u200b", "\ufffd", "▁", "▁▁", "<sep>", "<ctl>", "<s>", "</s>", "<unk>",
        "<0x41>", "ß", "Bär", "日本", "語", "한", "😀", "\U0001d400", "q", "zz", "(i", "++", "{", "\x01", "ſ", "K"]
CASES = {
    "unigram": dict(model_type="unigram", vocab_size=160, pad_id=3),
    "unigram_user": dict(model_type="unigram", vocab_size=160, user_defined_symbols=["<sep>", "sea", "se", "  ", "▁▁"],
                         control_symbols=["<ctl>"]),
    "unigram_bytes": dict(model_type="unigram", vocab_size=420, byte_fallback=True, character_coverage=0.98,
                          add_dummy_prefix=False),
    "unigram_long": dict(model_type="unigram", vocab_size=160, split_by_whitespace=False,
                         remove_extra_whitespaces=False),
    "bpe": dict(model_type="bpe", vocab_size=160, unk_surface="??"),
    "bpe_user": dict(model_type="bpe", vocab_size=160, user_defined_symbols=["<sep>", "sea", "se", "  ", "▁▁"],
                     control_symbols=["<ctl>"]),
    "bpe_bytes": dict(model_type="bpe", vocab_size=420, byte_fallback=True, character_coverage=0.98,
                      remove_extra_whitespaces=False, allow_whitespace_only_pieces=True),
    "characters": dict(model_type="char", vocab_size=60, character_coverage=0.98, user_defined_symbols=["the"]),
}
PATTERNS = {
    "qwen": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
            r"\s+(?!\S)|\s+",
    "phi3small": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|"
                 r"\s+(?!\S)|\s+",
    "kimi_k2": r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
               r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?"
               r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
               r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "chatglm": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
               r"\s*[\r\n]+|\s+(?!\S)|\s+",
}
COUNT = 90


def texts(draw):
    words = " ".join(TEXT).split(" ")
    for _ in range(COUNT):
        kind = draw.random()
        if kind < 0.4:
            yield "".join(draw.choice(BITS) for _ in range(draw.randint(0, 20)))
        elif kind < 0.8:
            yield "".join(draw.choice([draw.choice(words), draw.choice(BITS), " "]) for _ in range(draw.randint(0, 24)))
        elif kind < 0.9:
            line = draw.choice(TEXT)
            yield line[draw.randint(0, len(line)):][:60]
        else:
            yield draw.choice(BITS) * draw.randint(1, 40)


def write(folder, name, lines):
    with open(os.path.join(folder, name + ".jsonl"), "w") as file:
        for text, ids, decoded in lines:
            file.write(json.dumps({"text": text, "ids": ids, "decoded": decoded}) + "\n")


def vary(path, name, draw):
    """Pieces that are not used, and pieces of equal scores."""
    from sentencepiece import sentencepiece_model_pb2 as pb
    model = pb.ModelProto()
    with open(path, "rb") as file:
        model.ParseFromString(file.read())
    for piece in model.pieces:
        if piece.type == 1 and name.endswith("unused") and len(piece.piece) > 1 and draw.random() < 0.2:
            piece.type = 5
        if piece.type == 1 and name.endswith("equal"):
            piece.score = float(round(piece.score / 16))
    return model.SerializeToString()


def models(out, draw):
    with tempfile.TemporaryDirectory() as folder:
        corpus, rules = os.path.join(folder, "text"), os.path.join(folder, "rules")
        with open(corpus, "w") as file:
            file.write("\n".join(TEXT * 4))
        with open(rules, "w") as file:
            file.write("\n".join(RULES) + "\n")
        made = {}
        for name, options in CASES.items():
            prefix = os.path.join(folder, name)
            sentencepiece.SentencePieceTrainer.train(input=corpus, model_prefix=prefix, num_threads=1, minloglevel=2,
                                                     hard_vocab_limit=False, normalization_rule_tsv=rules, **options)
            with open(prefix + ".model", "rb") as file:
                made[name] = file.read()
        for name in "unigram_unused", "bpe_unused", "bpe_equal":
            made[name] = vary(os.path.join(folder, name.split("_")[0] + ".model"), name, draw)
    for name, data in made.items():
        with open(os.path.join(out, name + ".model"), "wb") as file:
            file.write(data)
        model = sentencepiece.SentencePieceProcessor(model_proto=data)
        lines = []
        for text in texts(draw):
            ids = model.encode(text)
            lines.append((text, ids, model.decode(ids)))
        write(out, name, lines)


def ranks(out, draw):
    trained = SimpleBytePairEncoding.train("\n".join(TEXT * 2), vocab_size=380, pat_str=PATTERNS["chatglm"])
    merges = trained.mergeable_ranks
    for name, pattern in PATTERNS.items():
        with open(os.path.join(out, name + ".tiktoken"), "w") as file:
            for token, rank in sorted(merges.items(), key=lambda entry: entry[1]):
                file.write(base64.b64encode(token).decode() + " %d\n" % rank)
        encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=merges, special_tokens={})
        lines = []
        for text in texts(draw):
            text = unicodedata.normalize("NFC", text) if name == "qwen" else text
            ids = encoding.encode_ordinary(text)
            lines.append((text, ids, encoding.decode(ids)))
        write(out, name, lines)


def main():
    out, seed = sys.argv[1], int(sys.argv[2])
    os.makedirs(out, exist_ok=True)
    draw = random.Random(seed)
    models(out, draw)
    ranks(out, draw)


if __name__ == "__main__":
    main()
