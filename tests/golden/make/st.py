"""Minimal safetensors reader and writer over numpy, for the generators of the golden cases."""
import json, struct
import numpy as np
T = {np.dtype(np.float32): 'F32', np.dtype(np.float64): 'F64', np.dtype(np.float16): 'F16',
     np.dtype(np.int64): 'I64', np.dtype(np.int32): 'I32', np.dtype(np.uint8): 'U8', np.dtype(np.bool_): 'BOOL', np.dtype(np.int8): 'I8'}
R = {v: k for k, v in T.items()}
def save(path, tensors, meta=None):
    head, off, blobs = {}, 0, []
    if meta: head['__metadata__'] = {k: v if isinstance(v, str) else json.dumps(v) for k, v in meta.items()}
    for name in sorted(tensors, key=lambda n: (-np.asarray(tensors[n]).dtype.itemsize, n)):
        a = np.asarray(tensors[name])
        a = np.ascontiguousarray(a).reshape(a.shape)
        b = a.tobytes(); head[name] = {'dtype': T[a.dtype], 'shape': list(a.shape), 'data_offsets': [off, off + len(b)]}
        off += len(b); blobs.append(b)
    h = json.dumps(head, separators=(',', ':')).encode(); h += b' ' * (-len(h) % 8)
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(h))); f.write(h)
        for b in blobs: f.write(b)
def load(path):
    b = open(path, 'rb').read(); n = struct.unpack('<Q', b[:8])[0]; head = json.loads(b[8:8 + n]); meta = head.pop('__metadata__', {})
    out = {}
    for k, v in head.items():
        s, e = v['data_offsets']; d = b[8 + n + s:8 + n + e]
        if v['dtype'] == 'BF16':
            u = np.frombuffer(d, np.uint16).astype(np.uint32) << 16; a = u.view(np.float32)
        else: a = np.frombuffer(d, R[v['dtype']])
        out[k] = a.reshape(v['shape'])
    return out, meta
