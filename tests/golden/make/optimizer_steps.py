"""Twenty steps of each optimizer in float64: tests/golden/optimizers/steps.safetensors.

    python optimizer_steps.py OUT.safetensors

A matrix of a block and the weight of a norm go towards a target: the gradient is w - target. adamw, adam, sgd, muon and adafactor are torch.optim's;
Muon's iteration of Newton and Schulz, which torch rounds to bf16, is made here in float64 by the published formula, and the weights that
are no matrices of blocks get AdamW. lion is the algorithm of the paper (Chen et al. 2023, algorithm 2)."""
import sys
import numpy as np
import torch
import torch.optim._muon as torch_muon
import st

RATE, STEPS, DECAY = 0.02, 20, 0.3
ADAM = dict(lr=RATE, betas=(0.8, 0.95), eps=1e-3)


def newton_schulz(grad, coefficients, steps, eps):
    a, b, c = coefficients
    x = grad.T if grad.size(0) > grad.size(1) else grad
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if grad.size(0) > grad.size(1) else x


class Lion(torch.optim.Optimizer):
    def step(self):
        for group in self.param_groups:
            for p in group['params']:
                m = self.state[p].setdefault('m', torch.zeros_like(p))
                b1, b2 = group['betas']
                update = torch.sign(b1 * m + (1 - b1) * p.grad)
                p.data -= group['lr'] * (update + group['weight_decay'] * p.data)
                self.state[p]['m'] = b2 * m + (1 - b2) * p.grad


def made(kind, matrix, vector):
    groups = [dict(params=[matrix], weight_decay=DECAY), dict(params=[vector], weight_decay=0)]
    if kind == 'adamw': return [torch.optim.AdamW(groups, **ADAM)]
    if kind == 'adam': return [torch.optim.Adam(groups, **ADAM)]
    if kind == 'sgd': return [torch.optim.SGD(groups, lr=RATE, momentum=0.7)]
    if kind == 'lion': return [Lion(groups, dict(lr=RATE, betas=(0.8, 0.95)))]
    if kind == 'adafactor': return [torch.optim.Adafactor(groups, lr=RATE, eps=(1e-3, 1e-3))]
    return [torch.optim.Muon(groups[:1], lr=RATE, momentum=0.7, adjust_lr_fn='match_rms_adamw'),
            torch.optim.AdamW(groups[1:], **ADAM)]


def main(path):
    torch_muon._zeropower_via_newtonschulz = newton_schulz
    rng = np.random.default_rng(20240501)
    start = {'matrix': rng.normal(size=(64, 32)), 'vector': rng.normal(size=(32,))}
    target = {k: v + rng.normal(size=v.shape) for k, v in start.items()}
    out = {f'{what}.{k}': v.astype(np.float32) for what, t in (('start', start), ('target', target)) for k, v in t.items()}
    for kind in ('adamw', 'adam', 'sgd', 'lion', 'muon', 'adafactor'):
        w = {k: torch.tensor(out[f'start.{k}'].astype(np.float64), requires_grad=True) for k in start}
        goal = {k: torch.tensor(out[f'target.{k}'].astype(np.float64)) for k in start}
        optimizers = made(kind, w['matrix'], w['vector'])
        for _ in range(STEPS):
            for k in w: w[k].grad = (w[k] - goal[k]).detach()
            for o in optimizers: o.step()
        for k in w: out[f'{kind}.{k}'] = w[k].detach().numpy().astype(np.float32)
    st.save(path, out, {'command': 'python optimizer_steps.py OUT.safetensors'})


main(sys.argv[1])
