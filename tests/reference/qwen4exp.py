"""Qwen4-Exp's text trunk in NumPy, written from docs/model.md alone: the slow implementation that shares nothing with ours.

    config, arrays = checkpoint.read_folder(folder)
    trace, gaps = Model(config, arrays).run(tokens, "a")

`trace` has the names and shapes of tests/data/micro/golden_index.txt; `gaps` says how close the discrete choices were:
the smallest distance between two values whose order decided a route or a selection (exact zeros beside zeros excepted:
those are ties, and go to the lower index). Everything is float64 unless told otherwise.
"""
import re

import numpy as np


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


def silu(x):
    return x * sigmoid(x)


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def softmax(x):
    p = np.exp(x - x.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def causal_conv(x, weight, dilation):
    """x [T, channels], weight [channels, taps]; the last tap multiplies the current row."""
    out = np.zeros_like(x)
    taps = weight.shape[1]
    for k in range(taps):
        back = dilation * (taps - 1 - k)
        if back < len(x):
            out[back:] += weight[:, k] * x[:len(x) - back]
    return out


def last_rows(x, count):
    """The newest `count` rows, oldest first, zeros where there was nothing yet; as [1, channels, count]."""
    padded = np.concatenate([np.zeros((count, x.shape[1]), x.dtype), x])
    return padded[len(padded) - count:].T[None]


class Model:
    def __init__(self, config, arrays, dtype=np.float64):
        top = config
        c = config.get("text_config", config)
        self.c, self.dtype = c, dtype
        names = {re.sub(r"^model\.(language_model\.)?", "", name): value for name, value in arrays.items()
                 if not name.startswith(("model.visual.", "mtp."))}
        self.w = {name: value if value.dtype == np.int64 else value.astype(dtype) for name, value in names.items()}
        self.layers, self.hidden, self.eps = c["num_hidden_layers"], c["hidden_size"], c["rms_norm_eps"]
        self.hc = c["hc_count"]
        types = c.get("layer_types")
        if types is None:
            types = ["full" if (i + 1) % c["full_attention_interval"] == 0 else "linear_attention" for i in range(self.layers)]
        self.linear = [t == "linear_attention" for t in types]
        self.ple_layers = [i - 1 for i in c.get("ple_layer_ids") or []]
        self.act = silu  # the only hidden_act of the family
        gate = c.get("output_gate_type") or c["hidden_act"]
        self.gate_act = {"sigmoid": sigmoid, "silu": silu}[gate]
        eos = c.get("eos_token_id", top.get("eos_token_id"))
        self.eos = eos[0] if isinstance(eos, list) else eos
        rope = c.get("rope_parameters", c)
        self.rotary = int(c["head_dim"] * rope["partial_rotary_factor"])
        i = np.arange(self.rotary // 2)
        self.frequencies = np.float64(rope["rope_theta"]) ** (-2.0 * i / self.rotary)
        self.tied = c.get("tie_word_embeddings", top.get("tie_word_embeddings", False))

    def mul(self, x, name, part=...):
        """x times a matrix, or a part of it. The one place where a matrix meets an activation."""
        return x @ self.w[name][part].T

    # 2: the norms
    def norm(self, x, gain):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * gain

    def zero_centred(self, name):
        return 1 + self.w[name]

    def group_norm(self, x, name):
        """x [T, hc, hidden], one norm per stream, gain hc*hidden wide."""
        return self.norm(x, self.zero_centred(name).reshape(self.hc, self.hidden))

    def rope(self, x, positions):
        """x [T, heads, dims], positions [T]."""
        half = self.rotary // 2
        angle = (positions[:, None] * self.frequencies)[:, None, :]
        cos, sin = np.cos(angle).astype(self.dtype), np.sin(angle).astype(self.dtype)
        a, b = x[..., :half], x[..., half:self.rotary]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin, x[..., self.rotary:]], -1)

    # 2.4
    def hc_read(self, x, name, inject=True):
        n = self.group_norm(x, name + "hc_norm.weight")
        flat = n.reshape(len(x), -1)
        low = silu(self.mul(flat, name + "input_mix_weight_down.weight") / self.hc)
        g = sigmoid(self.mul(low, name + "input_mix_weight_up.weight")).reshape(n.shape)
        u = (g * n).sum(1) / self.hc
        if not inject:
            return u, None
        return u, 2 * sigmoid(self.mul(flat, name + "block_inject_weight.weight") / self.hc)

    # 2.5
    def delta_net(self, u, name, cache):
        c, w, steps = self.c, self.w, len(u)
        nk, nv = c["linear_num_key_heads"], c["linear_num_value_heads"]
        kd, vd = c["linear_key_head_dim"], c["linear_value_head_dim"]
        raw = self.mul(u, name + "in_proj_qkv.weight")
        taps = w[name + "conv1d.weight"][:, 0]
        cache["conv_states.0"] = last_rows(raw, taps.shape[1])
        mixed = self.act(causal_conv(raw, taps, 1))
        q = mixed[:, :nk * kd].reshape(steps, nk, kd)
        k = mixed[:, nk * kd:2 * nk * kd].reshape(steps, nk, kd)
        v = mixed[:, 2 * nk * kd:].reshape(steps, nv, vd)
        q = q / np.sqrt((q * q).sum(-1, keepdims=True) + 1e-6) / np.sqrt(kd)
        k = k / np.sqrt((k * k).sum(-1, keepdims=True) + 1e-6)
        q, k = (np.repeat(t, nv // nk, axis=1) for t in (q, k))
        beta = sigmoid(self.mul(u, name + "in_proj_b.weight"))
        decay = np.exp(-np.exp(w[name + "A_log"]) * softplus(self.mul(u, name + "in_proj_a.weight") + w[name + "dt_bias"]))
        state = np.zeros((nv, kd, vd), self.dtype)
        out = np.empty((steps, nv, vd), self.dtype)
        for t in range(steps):
            state *= decay[t][:, None, None]
            read = np.einsum("hkv,hk->hv", state, k[t])
            state += k[t][:, :, None] * (beta[t][:, None] * (v[t] - read))[:, None, :]
            out[t] = np.einsum("hkv,hk->hv", state, q[t])
        cache["recurrent_states.0"] = state[None]
        z = (self.mul(u, name + "in_proj_z.weight")).reshape(steps, nv, vd)
        out = self.norm(out, w[name + "norm.weight"]) * self.gate_act(z)
        return self.mul(out.reshape(steps, -1), name + "out_proj.weight")

    # 2.7
    def select(self, u, name, cache, gaps):
        c, steps = self.c, len(u)
        heads, dim, ratio = c["indexer_n_heads"], c["indexer_head_dim"], c["indexer_compress_ratio"]
        if ratio == 0:  # dense, without an indexer
            return np.tril(np.ones((steps, steps), np.uint8))
        qk = self.mul(u, name + "index_qk_proj.weight")
        raw = qk[:, heads * dim:]
        cache["indexer_keys"] = raw[None]
        q = self.norm(qk[:, :heads * dim].reshape(steps, heads, dim), self.zero_centred(name + "q_layernorm.weight"))
        q = self.rope(q, np.arange(steps))
        blocks = steps // ratio
        keys = self.norm(raw[:blocks * ratio].reshape(blocks, ratio, dim).mean(1), self.zero_centred(name + "k_layernorm.weight"))
        keys = self.rope(keys[:, None], np.arange(blocks) * ratio)[:, 0]
        scores = np.maximum(np.einsum("thd,bd->thb", q, keys), 0).sum(1) / np.sqrt(dim)
        visible = np.zeros((steps, steps), np.uint8)
        for p in range(steps):
            complete = (p + 1) // ratio
            keep = min(c["indexer_budget"] // ratio, complete)
            order = np.argsort(-scores[p, :complete], kind="stable")
            if 0 < keep < complete:
                inside, outside = scores[p, order[keep - 1]], scores[p, order[keep]]
                if inside > 0:
                    gaps["selection"] = min(gaps["selection"], inside - outside)
            for b in order[:keep]:
                visible[p, b * ratio:(b + 1) * ratio] = 1
            visible[p, complete * ratio:p + 1] = 1
        return visible

    # 2.6
    def attention(self, u, name, cache, gaps):
        c, w, steps = self.c, self.w, len(u)
        heads, kv, dim = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        both = (self.mul(u, name + "q_proj.weight")).reshape(steps, heads, 2 * dim)
        gate = both[..., dim:]
        positions = np.arange(steps)
        q = self.rope(self.norm(both[..., :dim], self.zero_centred(name + "q_norm.weight")), positions)
        k = (self.mul(u, name + "k_proj.weight")).reshape(steps, kv, dim)
        k = self.rope(self.norm(k, self.zero_centred(name + "k_norm.weight")), positions)
        v = (self.mul(u, name + "v_proj.weight")).reshape(steps, kv, dim)
        cache["keys"], cache["values"] = k.transpose(1, 0, 2)[None], v.transpose(1, 0, 2)[None]
        visible = self.select(u, name + "indexer.", cache, gaps)
        k, v = (np.repeat(t, heads // kv, axis=1) for t in (k, v))
        scores = np.einsum("thd,shd->hts", q, k) / np.sqrt(dim)
        p = softmax(np.where(visible, scores, -np.inf))
        out = np.einsum("hts,shd->thd", p, v) * sigmoid(gate)
        return self.mul(out.reshape(steps, -1), name + "o_proj.weight"), visible

    # 2.9
    def expert(self, u, name, e):
        """Output of expert e for the rows u, whichever way the checkpoint stores it."""
        fused = name + "experts.gate_up_proj"
        if fused not in self.w:
            return self.swiglu(u, f"{name}experts.{e}.")
        middle = self.w[fused].shape[1] // 2
        gate, up = self.mul(u, fused, np.s_[e, :middle]), self.mul(u, fused, np.s_[e, middle:])
        return self.mul(silu(gate) * up, name + "experts.down_proj", e)

    def swiglu(self, u, name):
        inner = silu(self.mul(u, name + "gate_proj.weight")) * self.mul(u, name + "up_proj.weight")
        return self.mul(inner, name + "down_proj.weight")

    def moe(self, u, name, gaps):
        c = self.c
        top = c["num_experts_per_tok"]
        logits = self.mul(u, name + "gate.weight")
        p = softmax(logits)
        ids = np.argsort(-p, axis=-1, kind="stable")
        ranked = np.take_along_axis(p, ids, -1)[:, :top + 1]
        if ranked.shape[1] > 1:
            gaps["route"] = min(gaps["route"], (ranked[:, :-1] - ranked[:, 1:]).min())
        ids, weights = ids[:, :top], ranked[:, :top]
        if c.get("norm_topk_prob", True):
            weights = weights / weights.sum(-1, keepdims=True)
        y = np.zeros_like(u)
        for e in range(c["num_experts"]):
            rows, ranks = np.nonzero(ids == e)
            if len(rows):
                y[rows] += weights[rows, ranks][:, None] * self.expert(u[rows], name, e)
        y += self.swiglu(u, name + "shared_expert.") * sigmoid(self.mul(u, name + "shared_expert_gate.weight"))
        return y, (logits, weights, ids.astype(np.int32))

    # 2.8
    def ngram_rows(self, tokens, multipliers, primes, offsets):
        size, per = self.c["ngram_size"], self.c["heads_per_ngram"]
        rows = np.empty((len(tokens), (size - 1) * per), np.int64)
        for p in range(len(tokens)):
            window, cut = [int(tokens[p])], False
            for back in range(1, size):
                cut = cut or p - back < 0 or int(tokens[p - back]) == self.eos
                window.append(self.eos if cut else int(tokens[p - back]))
            mixed = window[0] * int(multipliers[0])
            for order in range(2, size + 1):
                mixed ^= window[order - 1] * int(multipliers[order - 1])
                for head in range((order - 2) * per, (order - 1) * per):
                    rows[p, head] = mixed % int(primes[head]) + int(offsets[head])
        return rows

    def table(self, name):
        shards = {int(m[1]): value for key, value in self.w.items()
                  if (m := re.fullmatch(re.escape(name) + r"ngram_embedding\.shard_(\d+)\.weight", key))}
        return np.concatenate([shards[k] for k in sorted(shards)])

    def ple(self, x, tokens, name, cache):
        c, w, steps = self.c, self.w, len(tokens)
        e_name = name + "ple_embedding."
        rows = self.ngram_rows(tokens, *(w[e_name + part] for part in
                                         ("layer_multipliers", "ngram_heads_vocab_sizes", "ngram_heads_offsets")))
        e = self.table(e_name)[rows].reshape(steps, -1)
        key = self.group_norm((self.mul(e, name + "key_proj.weight")).reshape(x.shape), name + "norm_key.weight")
        query = self.group_norm(x, name + "norm_query.weight")
        s = (key * query).sum(-1) / np.sqrt(self.hidden)
        gate = sigmoid(np.sign(s) * np.sqrt(np.maximum(np.abs(s), 1e-6)))
        gv = gate[..., None] * (self.mul(e, name + "value_proj.weight"))[:, None, :]
        nv = self.group_norm(gv, name + "norm_conv.weight").reshape(steps, -1)
        taps = w[name + "conv1d.weight"][:, 0]
        dilation = c["ngram_size"]
        out = gv + silu(causal_conv(nv, taps, dilation)).reshape(x.shape)
        history = [self.eos] * (dilation - 1) + [int(t) for t in tokens]
        cache["conv_states.1"] = last_rows(nv, (taps.shape[1] - 1) * dilation)
        cache["conv_states.2"] = np.array([history[len(history) - (dilation - 1):]], np.int64)
        return out, rows

    # 2.3
    def layer(self, i, x, tokens, trace, gaps):
        """One layer on the streams x [T, hc, hidden]; its part of the trace is put into `trace`. Returns the new streams."""
        name, cache, steps = f"layers.{i}.", {}, len(tokens)
        if i in self.ple_layers:
            add, rows = self.ple(x, tokens, name + "ple.", cache)
            x = x + add
            trace.setdefault("ple_out", []).append(add.reshape(steps, -1))
            trace.setdefault("ple_rows", []).append(rows)
        u, a = self.hc_read(x, name + "attn_hyper_connection.")
        if self.linear[i]:
            y = self.delta_net(u, name + "linear_attn.", cache)
        else:
            y, visible = self.attention(u, name + "self_attn.", cache, gaps)
            trace.setdefault("qsa_selected", []).append(visible)
        x = x + a[..., None] * y[:, None]
        u, a = self.hc_read(x, name + "mlp_hyper_connection.")
        y, route = self.moe(u, name + "mlp.", gaps)
        x = x + a[..., None] * y[:, None]
        trace.setdefault("layer_out", []).append(x.reshape(steps, -1))
        trace.update({f"router{i}.{j}": part for j, part in enumerate(route)})
        trace.update({f"cache.layer{i}.{part}": value for part, value in cache.items()})
        return x

    # 2.2
    def streams(self, tokens):
        return np.repeat(self.w["embed_tokens.weight"][np.asarray(tokens)][:, None], self.hc, axis=1)

    def run(self, tokens, prefix):
        trace, gaps = {"tokens": np.asarray(tokens, np.int32)}, {"route": np.inf, "selection": np.inf}
        x = self.streams(tokens)
        for i in range(self.layers):
            x = self.layer(i, x, tokens, trace, gaps)
        u, _ = self.hc_read(x, "hyper_connection_mixer.", inject=False)
        head = "embed_tokens.weight" if self.tied else "lm_head.weight"
        trace.update(final_hidden=u, logits=self.mul(u, head))
        return {f"{prefix}.{name}": np.stack(value) if isinstance(value, list) else value for name, value in trace.items()}, gaps
