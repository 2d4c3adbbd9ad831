"""Blocks of quantised types and the numbers that they hold, by the gguf package, and errors of quantisation: tests/golden/types.

usage: golden_types.py OUT_DIR public          the committed case: random blocks
       golden_types.py OUT_DIR errors          errors.safetensors: random matrices, and what llama.cpp's quantisers lose of them
       golden_types.py OUT_DIR FILE.gguf ...   blocks.safetensors: the first blocks of each matrix of the files
       golden_types.py check FILE              makes the committed case again and compares

A case has for each type NAME.blocks, bytes, and NAME.floats, the numbers in fp32. The scales of random blocks in f16 are finite: random
ones, the smallest and largest of each sign, subnormal ones and zeros. The other bytes are random. Errors: matrix.NAME (rows, columns), and
NAME.TYPE, the sum of the squares of the errors, and that of x² times them. Needs numpy and gguf, and llama_cpp for errors; the library does
not."""
import sys, os, ctypes
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy as np, gguf
import st
from gguf.quants import dequantize
SCALES = {'q8_0': [0], 'q4_0': [0], 'q4_1': [0, 2], 'q5_0': [0], 'q5_1': [0, 2], 'q2_K': [80, 82], 'q3_K': [108], 'q4_K': [0, 2],
          'q5_K': [0, 2], 'q6_K': [208], 'iq4_nl': [0], 'iq4_xs': [0]}  # where a block has f16
EXTREMES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x8400, 0x7bff, 0xfbff, 0x3c00, 0xbc00]

def kind(name): return gguf.GGMLQuantizationType[name.upper()]

def random_blocks(name, rng):
    numbers, size = gguf.GGML_QUANT_SIZES[kind(name)]
    blocks = rng.integers(0, 256, (32 if numbers == 32 else 6, size), dtype=np.uint8)
    for at in SCALES[name]:
        scales = rng.integers(0, 0x7c00, len(blocks)).astype(np.uint16) | rng.integers(0, 2, len(blocks)).astype(np.uint16) << np.uint16(15)
        some = rng.permutation(EXTREMES)[:len(blocks) // 2]
        scales[:len(some)] = some
        blocks[:, at:at + 2] = rng.permutation(scales)[:, None].view(np.uint8)
    return blocks

def case(blocks):
    floats = {name: dequantize(b.reshape(1, -1), kind(name)).reshape(-1) for name, b in blocks.items()}
    return {f'{n}.blocks': b.reshape(-1) for n, b in blocks.items()} | {f'{n}.floats': f for n, f in floats.items()}

def public():
    return case({name: random_blocks(name, np.random.default_rng([7, i])) for i, name in enumerate(SCALES)})

def of_files(paths):
    blocks = {}
    for path in paths:
        for t in gguf.GGUFReader(path).tensors:
            name = next((n for n in SCALES if kind(n) == t.tensor_type), None)
            if name: blocks.setdefault(name, []).append(np.asarray(t.data).reshape(-1, gguf.GGML_QUANT_SIZES[kind(name)][1])[:512])
    return case({name: np.concatenate(b) for name, b in blocks.items()})

def matrices():
    r = np.random.default_rng(11); shape = (16, 512); normal = lambda: r.normal(0, 0.02, shape)
    columns = normal(); columns[:, r.choice(512, 8, replace=False)] *= 20
    made = {'normal': normal(), 'uniform': r.uniform(-0.1, 0.1, shape), 'laplace': r.laplace(0, 0.02, shape), 'student': r.standard_t(3, shape) * 0.02,
            'columns': columns, 'rows': normal() * np.exp(r.normal(0, 1, (16, 1))), 'shifted': r.normal(0.05, 0.02, shape),
            'sparse': normal() * (r.random(shape) < 0.3), 'products': r.normal(0, 1, (16, 4)) @ r.normal(0, 1, (4, 512)) * 0.01,
            'lognormal': np.exp(r.normal(0, 1, shape)) * r.choice([-1, 1], shape) * 0.01}
    return {name: m.astype(np.float16) for name, m in made.items()}

def errors():
    import llama_cpp
    base = ctypes.CDLL(os.path.join(os.path.dirname(llama_cpp.__file__), 'lib', 'libggml-base.so'))
    base.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]
    out = {}
    for name, half in matrices().items():
        out[f'matrix.{name}'] = half
        x = half.astype(np.float32)
        for type in SCALES:
            numbers, size = gguf.GGML_QUANT_SIZES[kind(type)]
            bytes = np.zeros(x.size // numbers * size, np.uint8)
            base.ggml_quantize_chunk(int(kind(type)), x.ctypes.data, bytes.ctypes.data, 0, *x.shape, None)
            e = (x.astype(np.float64) - dequantize(bytes.reshape(1, -1), kind(type)).reshape(x.shape)) ** 2
            out[f'{name}.{type}'] = np.array([e.sum(), (e * x.astype(np.float64) ** 2).sum()])
    return out

def main():
    if sys.argv[1] == 'check':
        have, _ = st.load(sys.argv[2]); want = public()
        bad = [n for n in want.keys() | have.keys() if n not in want or n not in have or want[n].tobytes() != have[n].tobytes()]
        print(f'{sys.argv[2]}: {"differs in " + ", ".join(sorted(bad)) if bad else "the same"}')
        sys.exit(bool(bad))
    if sys.argv[2:] == ['errors']:
        st.save(os.path.join(sys.argv[1], 'errors.safetensors'), errors(), {'command': 'golden_types.py OUT_DIR errors'})
        return
    made = public() if sys.argv[2:] == ['public'] else of_files(sys.argv[2:])
    st.save(os.path.join(sys.argv[1], 'blocks.safetensors'), made, {'command': 'golden_types.py OUT_DIR ' + ' '.join(map(os.path.basename, sys.argv[2:]))})

if __name__ == '__main__': main()
