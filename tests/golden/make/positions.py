"""Positions of the reference: sinusoids, rotations with their scalings, and biases by distance. From the formulas of the papers and, where
there is no paper, of the models that have them; sharing nothing with the library."""
import math, torch

def sinusoid(positions, width, layout):
    """interleaved: Vaswani et al. 2017; halves: Marian; spaced: tensor2tensor, M2M100, Whisper"""
    p, half = positions.double()[:, None], width // 2; out = torch.zeros(len(positions), width)
    if layout == 'spaced': a = p * torch.exp(torch.arange(half).double() * -(math.log(10000.0) / (half - 1)))
    else: a = p * torch.exp(torch.arange(0, width, 2).double() * -(math.log(10000.0) / width))
    if layout == 'interleaved': out[:, 0::2], out[:, 1::2] = a.sin(), a.cos()
    else: out[:, :half], out[:, half:2 * half] = a.sin(), a.cos()
    return out

def yarn_factor(s, k): return 0.1 * k * math.log(s) + 1 if s > 1 else 1.0
def yarn_ramp(d, theta, z):
    """1 where a channel is slowed by the factor, 0 where it is kept (Peng et al. 2023)"""
    dim = lambda turns: d * math.log(z['original_context'] / (2 * math.pi * turns)) / (2 * math.log(theta))
    low, high = dim(z.get('beta_fast', 32)), dim(z.get('beta_slow', 1))
    if z.get('truncate', True): low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, d - 1)
    if low == high: high += 0.001
    return ((torch.arange(d // 2).double() - low) / (high - low)).clamp(0, 1)
def frequencies(d, theta, z, T, context):
    """what the d/2 pairs turn by at each position, and the factor on cos and sin; z: the scaling or None, T: positions of the sequence"""
    f = lambda base: 1 / base ** (torch.arange(0, d, 2).double() / d)
    if z is None or z['kind'] == 'none': return f(theta), 1.0
    kind, P, given = z['kind'], z.get('original_context'), z.get('attention_factor'); s = z.get('factor') or context / P; one = given or 1.0
    if kind == 'linear': return f(theta) / s, one
    if kind == 'ntk': return f(theta * s ** (d / (d - 2))), one
    if kind == 'dynamic': return f(theta * (s * T / P - (s - 1)) ** (d / (d - 2)) if T > P else theta), one
    if kind == 'yarn':
        r, m, all_dim = yarn_ramp(d, theta, z), z.get('mscale', 0), z.get('mscale_all_dim', 0)
        a = yarn_factor(s, m) / yarn_factor(s, all_dim) if m and all_dim else yarn_factor(s, 1)
        return f(theta) / s * r + f(theta) * (1 - r), given or a
    if kind == 'llama3':
        low, high = z.get('low_freq', 1), z.get('high_freq', 4); wave = 2 * math.pi / f(theta)
        t = ((P / wave - low) / (high - low)).clamp(0, 1)   # 0: long waves, slowed; 1: short ones, kept
        return (1 - t) * f(theta) / s + t * f(theta), one
    assert kind == 'longrope', kind
    ext = torch.tensor(z['long'] if T > P else z['short']).double()
    assert len(ext) == d // 2, 'longrope wants a number for each pair'
    return f(theta) / ext, given or (math.sqrt(1 + math.log(s) / math.log(P)) if s > 1 else 1.0)
def rope(x, theta=10000.0, pairing='half', fraction=1.0, scaling=None, context=0):
    D = x.shape[-1]; R = int(D * fraction) // 2 * 2; T = x.shape[2]
    f, factor = frequencies(R, theta, scaling, T, context); a = torch.outer(torch.arange(T).double(), f)
    c, s = a.cos() * factor, a.sin() * factor; r, rest = x[..., :R], x[..., R:]
    if pairing == 'interleaved':
        x1, x2 = r[..., 0::2], r[..., 1::2]; y = torch.stack([x1 * c - x2 * s, x1 * s + x2 * c], -1).flatten(-2)
    else:
        x1, x2 = r[..., :R // 2], r[..., R // 2:]; y = torch.cat([x1 * c - x2 * s, x2 * c + x1 * s], -1)
    return torch.cat([y, rest], -1)

def alibi_slopes(h, form='press', most=8):
    """press: the paper's, which are BLOOM's; falcon: those rounded to bf16; mpt: of the next power of two, every second one first"""
    if form == 'falcon': return torch.tensor(alibi_slopes(h)).bfloat16().double().tolist()
    if form == 'mpt':
        n = 2 ** math.ceil(math.log2(h)); m = [2.0 ** (-(i + 1) * most / n) for i in range(n)]
        return m if n == h else (m[1::2] + m[0::2])[:h]
    def pow2(n): s = 2.0 ** (-8.0 / n); return [s ** (i + 1) for i in range(n)]
    if math.log2(h).is_integer(): return pow2(h)
    c = 2 ** math.floor(math.log2(h)); return pow2(c) + pow2(2 * c)[0::2][:h - c]

def bucket(r, count, max_distance, both):
    """T5's bucket of r = key − query (Raffel et al. 2020); the logarithm is fp32, as where models were trained"""
    at = torch.zeros_like(r)
    if both: count //= 2; at = (r > 0).long() * count; r = r.abs()
    else: r = (-r).clamp(min=0)
    exact = count // 2
    far = exact + (torch.log(r.clamp(min=1).float() / exact) / math.log(max_distance / exact) * (count - exact)).long()
    return at + torch.where(r < exact, r, far.clamp(max=count - 1))
def distance_bias(p, weight, H, Tq, causal, head_dim):
    """(H,T,T) added to the scores by a position of attention, or None. weight: its table or slopes, where it has one"""
    i = torch.arange(Tq); r = i[None, :] - i[:, None]
    if p['kind'] == 'alibi':
        form = p.get('form', 'press'); m = weight.view(H) if weight is not None else torch.tensor(alibi_slopes(H, form, p.get('max', 8)))
        return -m.view(H, 1, 1) * r.abs() * (head_dim ** -0.5 if form == 'falcon' else 1.0)
    if p['kind'] == 'buckets': return weight[bucket(r, p.get('buckets', 32), p.get('max_distance', 128), not causal)].permute(2, 0, 1)
    if p['kind'] == 'relative': m = p['max_distance']; return weight[r.clamp(-m, m) + m].permute(2, 0, 1)
    return None
