"""Checks the reference (reference.py) against other people's implementations of the same blocks: transformers, in float64 throughout.

usage: check_reference.py [NAME ...]      names as printed, or parts of them; all without

For each model of families.py, experts.py and encoders.py: random weights, a random batch of rows of different lengths, and the relative difference of
the logits (or hidden states) and of the gradients of a random sum of them by all parameters of transformers' model, through its weights
as they stand in ours. Then what no whole model shows: buckets of T5 by
distance, bias for each distance, slopes of many heads. Exit status 1 if one is above 1e-10.
Needs torch, numpy and transformers (pip install transformers); uses no network."""
import sys, os, contextlib, warnings
os.environ['HF_HUB_OFFLINE'] = '1'; os.environ['TRANSFORMERS_VERBOSITY'] = 'error'; warnings.filterwarnings('ignore')
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import zlib
import numpy as np, torch, transformers
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from reference import Ref, both, input_of
from positions import alibi_slopes, bucket, distance_bias
from families import V, decoders
from encoders import encoders
from experts import with_experts
torch.set_num_threads(1)
B, T, S, LIMIT, F64, NARROW = 2, 12, 9, 1e-10, torch.float64, (torch.float32, torch.float16, torch.bfloat16)
CORRECTION = 'e_score_correction_bias'   # what is added to the scores that choose experts: nothing that a gradient moves
SDPA = ('falcon rw', )   # the eager attention of transformers 5.23 adds Falcon's ALiBi twice, in the mask and to the scores; its other path once, as Falcon did

class NoNarrow(TorchDispatchMode):
    """fails on any number narrower than float64"""
    def __torch_dispatch__(s, f, types, args=(), kwargs=None):
        out = f(*args, **(kwargs or {}))
        for t in pytree.tree_leaves(out):
            if isinstance(t, torch.Tensor) and t.dtype in NARROW: raise RuntimeError(f'{f} gave {t.dtype}')
        return out
@contextlib.contextmanager
def double():
    """transformers casts norms, softmax and rotations to float32 by name: meanwhile these names mean float64"""
    old = torch.float32, torch.float, torch.bfloat16, torch.FloatTensor, torch.Tensor.float, torch.Tensor.bfloat16
    torch.float32 = torch.float = torch.bfloat16 = F64; torch.FloatTensor = lambda a: torch.tensor(a, dtype=F64); torch.Tensor.float = torch.Tensor.bfloat16 = torch.Tensor.double
    try: yield
    finally: torch.float32, torch.float, torch.bfloat16, torch.FloatTensor, torch.Tensor.float, torch.Tensor.bfloat16 = old

def new_model(name, cls, kw):
    cls = getattr(transformers, cls); cfg = cls.config_class(**{k: dict(v) if isinstance(v, dict) else v for k, v in kw.items()})
    cfg._attn_implementation = 'sdpa' if name.startswith(SDPA) else 'eager'; cfg._experts_implementation = 'eager'; m = cls(cfg).eval().double()
    if name.startswith('bloom'):   # its own GELU has √(2/π) with 8 digits, which is seen at 1e-10
        for block in m.transformer.h: block.mlp.gelu_impl = torch.nn.GELU(approximate='tanh')
    if name == 't5 v1.1': m.lm_head.weight = torch.nn.Parameter(m.lm_head.weight.detach().clone())   # of its own in published files
    r = np.random.default_rng(zlib.crc32(name.encode()))
    with torch.no_grad():
        for n, p in m.named_parameters():
            if not p.requires_grad: continue   # sinusoids, as they are
            x = r.standard_normal(tuple(p.shape)); norm = 'norm' in n.lower() or '.ln_' in n
            if norm and n.endswith('weight'): x = 1 + 0.3 * x
            elif p.ndim == 1: x = 0.3 * x
            elif 'embed' in n or 'relative' in n or 'token' in n: x = 0.5 * x
            else: x = x * 1.2 / np.sqrt(np.prod(p.shape[1:]) if p.ndim != 3 or 'conv' in n else p.shape[1])
            p.copy_(torch.tensor(x))
        for n, p in m.named_buffers():
            if n.endswith(CORRECTION): p.copy_(torch.tensor(0.1 * r.standard_normal(tuple(p.shape))))
    return m
def batch(spec, m, r):
    """ours, and the same as their keyword arguments; the second row is shorter"""
    c, kw, mask, pad = {}, {}, lambda n, t: (torch.arange(t)[None] < n[:, None]).long(), getattr(m.config, 'pad_token_id', None) or 0
    def text(t, n): x = torch.tensor(r.integers(4, V, (B, t))); return torch.where(mask(n, t).bool(), x, pad)
    main = input_of(spec, 'decoder' if spec.get('decoder') else 'encoder')
    if main['kind'] == 'patches': c['pixels'] = kw['pixel_values'] = torch.tensor(r.standard_normal((B, main['channels'], main['height'], main['width']))); return c, kw
    c['lengths'] = torch.tensor([T, T - 4]); c['ids'] = text(T, c['lengths'])
    if not both(spec):
        kw.update(input_ids=c['ids'], attention_mask=mask(c['lengths'], T))
        if (spec['encoder'].get('embed', spec['embed']) if spec.get('encoder') else spec['embed']).get('types', 0) > 1: c['token_types'] = kw['token_type_ids'] = torch.tensor(r.integers(0, 2, (B, T)))
        return c, kw
    kw.update(decoder_input_ids=c['ids'], decoder_attention_mask=mask(c['lengths'], T))
    i = input_of(spec, 'encoder')
    if i['kind'] == 'frames': c['features'] = kw['input_features'] = torch.tensor(r.standard_normal((B, i['channels'], 20)))
    else: c['source_lengths'] = torch.tensor([S - 3, S]); c['source'] = text(S, c['source_lengths']); kw.update(input_ids=c['source'], attention_mask=mask(c['source_lengths'], S))
    return c, kw
def compare(name, cls, kw, spec, weights):
    """relative differences of outputs and of gradients"""
    r = np.random.default_rng(zlib.crc32(name.encode()) + 1)
    with double():
        m = new_model(name, cls, kw); c, given = batch(spec, m, r)
        with NoNarrow(): theirs = m(**given, **({} if 'pixel_values' in given else {'use_cache': False} if spec.get('decoder') and 'CLIP' not in cls else {}), return_dict=True)
    theirs = theirs.logits if 'logits' in theirs else theirs.last_hidden_state
    P = {**dict(m.named_parameters()), **{n: p for n, p in m.named_buffers() if n.endswith(CORRECTION)}}; ref = Ref(spec, np.random.default_rng(0)); w = weights(P)
    assert sorted(w) == sorted(ref.w), (name, 'ours alone:', sorted(set(ref.w) - set(w)), 'theirs alone:', sorted(set(w) - set(ref.w)))
    for n, v in w.items(): assert v.numel() == ref.w[n].numel(), (name, n, v.shape, ref.w[n].shape)
    ref.w = {n: v.reshape(ref.w[n].shape) for n, v in w.items()}; ours = ref.forward(c)
    if theirs.ndim == ours.ndim - 1: theirs = theirs[..., None]   # one class
    valid = (torch.arange(ours.shape[1]) < c['lengths'][:, None]).double()[..., None] if ours.ndim == 3 else torch.ones(1, 1)
    weight = valid * torch.tensor(r.standard_normal(ours.shape)); learnt = [p for p in P.values() if p.requires_grad]
    gradients = [torch.autograd.grad((o * weight).sum(), learnt, allow_unused=True) for o in (theirs, ours)]
    whole = sum(float(g.norm()) ** 2 for g in gradients[0] if g is not None) ** .5; far = []
    for p, a, b in zip(learnt, *gradients):
        a, b = [torch.zeros_like(p) if g is None else g for g in (a, b)]; far.append(float((a - b).norm()) / (float(a.norm()) + 1e-4 * whole))
    return float(((ours - theirs) * valid).norm() / (theirs * valid).norm()), float(np.max(far)), min(float(theirs.std()), whole)   # np.max keeps a nan
def check_buckets():
    """our bucket of every distance up to 600, as T5 computes it in fp32; how many differ"""
    theirs = transformers.models.t5.modeling_t5.T5Attention._relative_position_bucket; r = torch.arange(-600, 601); wrong = 0
    for count, distance in ((32, 128), (8, 16), (16, 20), (64, 256), (32, 500), (8, 6)):
        for way in (True, False): wrong += int((bucket(r, count, distance, way) != theirs(r, way, count, distance)).sum())
    return wrong
def check_relative():
    """a bias for each distance is T5's with a bucket for each distance, 0 to the left first"""
    table = torch.randn(64, 3); m = 11; own = torch.stack([table[32 + r if r > 0 else -r] for r in range(-m, m + 1)])
    ours = distance_bias({'kind': 'relative', 'max_distance': m}, own, 3, 12, False, 8); i = torch.arange(12)
    theirs = table[transformers.models.t5.modeling_t5.T5Attention._relative_position_bucket(i[None, :] - i[:, None], True, 64, 128)].permute(2, 0, 1)
    return float((ours - theirs).abs().max())
def check_slopes():
    """slopes of 1 to 40 heads, with several maxima of MPT: the largest difference"""
    models, worst = transformers.models, 0.0
    with double():
        for h in range(1, 41):
            theirs = models.bloom.modeling_bloom.build_alibi_tensor(torch.ones(1, 2), h, F64)[:, 0, 1]; worst = max(worst, float((torch.tensor(alibi_slopes(h)) - theirs).abs().max()))
            for most in (2, 5, 8, 16): theirs = -models.mpt.modeling_mpt.build_mpt_alibi_tensor(h, 2, most)[:, 0, 0]; worst = max(worst, float((torch.tensor(alibi_slopes(h, 'mpt', most)) - theirs).abs().max()))
    return worst
def main(names):
    print(f'torch {torch.__version__}, transformers {transformers.__version__}, numpy {np.__version__}; relative differences in float64'); bad = 0
    print(f'{"model":22s} {"what it shows":46s} {"logits":>8s} {"gradients":>9s}')
    for name, shows, *rest in [*decoders(), *with_experts(), *encoders()]:
        if names and not any(n in name for n in names): continue
        try: out, gradient, size = compare(name, *rest)
        except Exception as e:
            if names: raise
            print(f'{name:22s} FAILED {type(e).__name__}: {str(e)[:600]}', flush=True); bad += 1; continue
        fails = not (out <= LIMIT and gradient <= LIMIT and size > 0.01); bad += fails
        print(f'{name:22s} {shows:46s} {out:8.1e} {gradient:9.1e}{"  TOO FAR" if fails else ""}', flush=True)
    if not names:
        wrong, off, slopes = check_buckets(), check_relative(), check_slopes(); bad += bool(wrong) + (not off <= LIMIT) + (not slopes <= LIMIT)
        print(f'buckets of T5, of 14412 distances in another one: {wrong}\nbias for each distance, as T5 with a bucket for each: {off:.1e}\nslopes of BLOOM and MPT, 1 to 40 heads: {slopes:.1e}')
    return 1 if bad else 0
if __name__ == '__main__': sys.exit(main(sys.argv[1:]))
