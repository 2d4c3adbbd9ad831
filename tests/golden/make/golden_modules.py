"""Values of torch.nn modules in float64, under the parameter names of the library: the cases of tests/golden/modules.

usage: golden_modules.py OUT_DIR public [NAME ...]   the committed cases, or some of them
       golden_modules.py check FILE ...              makes each committed case again and compares

A case is one file: spec and kind of module in the metadata, beside the command that made it; param.*, in.*, out.y, and for a
random dy the gradients grad.* (parameters) and out.d* (inputs). Needs torch and numpy; the library does not."""
import sys, os, json
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy as np, torch
import st
torch.set_default_dtype(torch.float64)
B, T, TM, C, H, F = 2, 6, 5, 16, 4, 24

def spec(stack, layers=1, placement='post', ffn='relu', final=False, causal=False):
    one = {'layers': layers, 'attention': {'heads': H, 'causal': causal, 'bias': True}, 'ffn': {'kind': ffn, 'd_ff': F},
           'norm': {'kind': 'layernorm', 'placement': placement, 'eps': 1e-5, 'final': final}}
    return {'format': 'qkv', 'version': 1, 'vocab': 7, 'd_model': C, 'context': 16, 'position': {'kind': 'none'}, 'tie': 'none',
            'head': {'kind': 'none'}, 'encoder': one if stack == 'encoder' else None, 'decoder': one if stack == 'decoder' else None}

def attention_names(ours, theirs):
    for i, p in enumerate('qkv'):
        yield f'{ours}{p}.weight', (f'{theirs}in_proj_weight', i)
        yield f'{ours}{p}.bias', (f'{theirs}in_proj_bias', i)
    yield f'{ours}o.weight', (f'{theirs}out_proj.weight', None)
    yield f'{ours}o.bias', (f'{theirs}out_proj.bias', None)

def pair(ours, theirs):
    for part in ('weight', 'bias'): yield f'{ours}{part}', (f'{theirs}{part}', None)

def block_names(ours, theirs, cross):
    yield from pair(f'{ours}attn_norm.', f'{theirs}norm1.'); yield from attention_names(f'{ours}attn.', f'{theirs}self_attn.')
    if cross:
        yield from pair(f'{ours}cross_norm.', f'{theirs}norm2.'); yield from attention_names(f'{ours}cross.', f'{theirs}multihead_attn.')
    yield from pair(f'{ours}ffn_norm.', f'{theirs}norm{3 if cross else 2}.')
    yield from pair(f'{ours}ffn.up.', f'{theirs}linear1.'); yield from pair(f'{ours}ffn.down.', f'{theirs}linear2.')

def part(t, where): return t if where is None else t.chunk(3)[where]

def norm(): return torch.nn.LayerNorm(C)
def layer(kind, placement, act): return kind(C, H, F, dropout=0.0, activation=act, batch_first=True, norm_first=placement == 'pre')
def not_after(n): return torch.triu(torch.ones(n, n, dtype=torch.bool), 1)  # torch: true masks

def encoder_post():   # padding on the right
    lengths = torch.tensor([6, 4]); hidden = torch.arange(T)[None] >= lengths[:, None]
    m = layer(torch.nn.TransformerEncoderLayer, 'post', 'relu')
    return 'encoder block', spec('encoder'), m, dict(block_names('', '', False)), {'lengths': lengths}, \
        lambda x, memory, values: m(x, src_key_padding_mask=hidden)
def encoder_pre():    # padding on the left
    starts = torch.tensor([0, 2]); hidden = torch.arange(T)[None] < starts[:, None]
    m = layer(torch.nn.TransformerEncoderLayer, 'pre', 'gelu')
    return 'encoder block', spec('encoder', placement='pre', ffn='gelu'), m, dict(block_names('', '', False)), {'starts': starts}, \
        lambda x, memory, values: m(x, src_key_padding_mask=hidden)
def decoder_post():   # causal, and a memory with padding
    lengths = torch.tensor([3, 5]); hidden = torch.arange(TM)[None] >= lengths[:, None]
    m = layer(torch.nn.TransformerDecoderLayer, 'post', 'relu')
    return 'decoder block', spec('decoder', causal=True), m, dict(block_names('', '', True)), {'memory_lengths': lengths}, \
        lambda x, memory, values: m(x, memory, tgt_mask=not_after(T), memory_key_padding_mask=hidden)
def decoder_pre():    # an additive mask on self attention
    bias = torch.randn(T, T); m = layer(torch.nn.TransformerDecoderLayer, 'pre', 'gelu')
    return 'decoder block', spec('decoder', placement='pre', ffn='gelu'), m, dict(block_names('', '', True)), {'bias': bias}, \
        lambda x, memory, values: m(x, memory, tgt_mask=bias)
def encoder_stack():
    m = torch.nn.TransformerEncoder(layer(torch.nn.TransformerEncoderLayer, 'pre', 'gelu'), 2, norm(), enable_nested_tensor=False)
    for p in m.parameters(): torch.nn.init.normal_(p, 0.0, 0.3)  # its layers begin as copies
    names = {k: v for i in range(2) for k, v in block_names(f'layers.{i}.', f'layers.{i}.', False)} | dict(pair('norm.', 'norm.'))
    return 'encoder stack', spec('encoder', 2, 'pre', 'gelu', True, True), m, names, {}, lambda x, memory, values: m(x, mask=not_after(T))
def decoder_stack():
    m = torch.nn.TransformerDecoder(layer(torch.nn.TransformerDecoderLayer, 'pre', 'relu'), 2, norm())
    for p in m.parameters(): torch.nn.init.normal_(p, 0.0, 0.3)
    names = {k: v for i in range(2) for k, v in block_names(f'layers.{i}.', f'layers.{i}.', True)} | dict(pair('norm.', 'norm.'))
    return 'decoder stack', spec('decoder', 2, 'pre', 'relu', True, True), m, names, {}, lambda x, memory, values: m(x, memory, tgt_mask=not_after(T))
def attention():      # a window as a dense mask
    m = torch.nn.MultiheadAttention(C, H, batch_first=True); i = torch.arange(T); dense = (i[:, None] - i[None]).abs() < 3
    return 'attention', spec('encoder'), m, dict(attention_names('', '')), {'dense': dense.to(torch.uint8)}, \
        lambda x, memory, values: m(x, x, x, attn_mask=~dense)[0]
def cross_values():   # values apart from keys
    m = torch.nn.MultiheadAttention(C, H, batch_first=True)
    return 'cross attention', spec('decoder'), m, dict(attention_names('', '')), {'values_apart': torch.ones(1, dtype=torch.uint8)}, \
        lambda x, memory, values: m(x, memory, values)[0]
def cross_widths():   # keys and values of other widths than queries
    m = torch.nn.MultiheadAttention(C, H, kdim=WIDTHS['cross_widths'][0], vdim=WIDTHS['cross_widths'][1], batch_first=True)
    names = {f'{p}.weight': (f'{p}_proj_weight', None) for p in 'qkv'} | {f'{p}.bias': ('in_proj_bias', i) for i, p in enumerate('qkv')}
    return 'cross attention', spec('decoder'), m, names | dict(pair('o.', 'out_proj.')), {}, lambda x, memory, values: m(x, memory, values)[0]
def layer_norm():
    m = norm(); return 'norm', spec('encoder'), m, dict(pair('', '')), {}, lambda x, memory, values: m(x)
def feed_forward():
    m = torch.nn.Sequential(torch.nn.Linear(C, F), torch.nn.GELU(), torch.nn.Linear(F, C))
    return 'feed-forward', spec('encoder', ffn='gelu'), m, dict(list(pair('up.', '0.')) + list(pair('down.', '2.'))), {}, \
        lambda x, memory, values: m(x)
PUBLIC = {f.__name__: f for f in (encoder_post, encoder_pre, decoder_post, decoder_pre, encoder_stack, decoder_stack, attention, cross_values,
                                  layer_norm, feed_forward, cross_widths)}
WIDTHS = {'cross_widths': (24, 20)}  # of memory and values; of others C

def make(path, name):
    torch.manual_seed(1000 + list(PUBLIC).index(name))
    kind, config, m, names, masks, run = PUBLIC[name]()
    for p in m.parameters():
        if p.dim() == 1 or p.std() == 0: torch.nn.init.normal_(p, 0.5, 0.3)  # biases and norms that are not what they begin as
        p.data = p.data.float().double()
    widths = WIDTHS.get(name, (C, C))
    x, memory, values = (torch.randn(B, n, c).float().double().requires_grad_() for n, c in ((T, C), (TM, widths[0]), (TM, widths[1])))
    masks = {k: v.float().double() if v.is_floating_point() else v for k, v in masks.items()}
    y = run(x, memory, values); dy = torch.randn_like(y).float().double(); y.backward(dy)
    theirs, t = dict(m.named_parameters()), {'in.x': x, 'in.dy': dy, 'out.y': y, 'out.dx': x.grad}
    if memory.grad is not None: t |= {'in.memory': memory, 'out.dmemory': memory.grad}
    if values.grad is not None: t |= {'in.values': values, 'out.dvalues': values.grad}
    for ours, (their, where) in names.items():
        t['param.' + ours] = part(theirs[their].detach(), where); t['grad.' + ours] = part(theirs[their].grad, where)
    out = {}
    for k, v in (t | {'in.' + k: v for k, v in masks.items()}).items():
        a = v.detach().contiguous().numpy()
        out[k] = a.astype(np.int32) if a.dtype == np.int64 else a.astype(np.float32) if not k.startswith(('out.', 'grad.')) and a.dtype == np.float64 else a
    apart = {'key_width': str(widths[0]), 'value_width': str(widths[1])} if name in WIDTHS else {}
    st.save(path, out, apart | {'kind': kind, 'spec': json.dumps(config), 'command': f'golden_modules.py OUT_DIR public {name}'})

if __name__ == '__main__':
    if sys.argv[1] == 'check':
        import tempfile
        for path in sys.argv[2:]:
            old, meta = st.load(path)
            with tempfile.TemporaryDirectory() as d:
                make(d + '/again', meta['command'].split()[-1]); new, _ = st.load(d + '/again')
            worst = max(np.abs(old[k].astype(float) - new[k].astype(float)).max() for k in old); assert old.keys() == new.keys() and worst < 1e-9, path
            print(f'{path}: {worst:.1e}')
    else:
        os.makedirs(sys.argv[1], exist_ok=True)
        for name in sys.argv[3:] or PUBLIC: make(os.path.join(sys.argv[1], name + '.safetensors'), name)
