#include "model/mtp.h"

#include "base/bytes.h"
#include "base/check.h"
#include "model/stages.h"

namespace evros::model {
namespace {

// What the head's stages see: a pass, and the head's own arrays.
struct HeadPass {
  const Pass& pass;
  const MtpScratch& mtp;
  const MtpPages& pages;
  HiddenNorm norm;

  const MtpWeights& weights() const { return *pass.model->weights.mtp; }
  const format::HyperParams& hyper() const { return pass.model->hyper; }
  const kernels::Kernels& kernels() const { return *pass.model->kernels; }
  const kernels::Batch& logit_rows() const { return pass.all_logits ? pass.batch : pass.last; }
  AttentionLayer attention() const { return {&weights().layer.attention, pages.k, pages.v, {}, 0, 0, 0, nullptr}; }
};

struct HeadStage {
  const char* name;
  bool logit_rows;  // runs over HeadPass::logit_rows
  void (*run)(const HeadPass& head, device::Queue& queue);
  void (*outputs)(const HeadPass& head, StageOutputs& outputs);
};

void hidden_norm(const HeadPass& head, device::Queue& queue, float* y, int64_t stride) {
  const auto& h = head.hyper();
  const int64_t wide = h.wide();
  const bool flat = head.norm == HiddenNorm::flat;
  const int32_t width = flat ? static_cast<int32_t>(wide) : h.hidden;
  head.kernels().rms_norm(queue, head.pass.batch,
                          {head.mtp.hidden, wide, width, head.weights().hidden_norm, width, flat ? 1 : h.hc_count,
                           width, h.rms_eps, y, stride, width});
}

// (e | n[s]) must lie together for one product. A joined row is one stream's place and then all of n, so e written
// before n[s] covers n[s - 1], which nobody needs any more: no stream is copied.
void join(const HeadPass& head, device::Queue& queue) {
  const auto& h = head.hyper();
  const auto& s = *head.pass.scratch;
  const auto& k = head.kernels();
  const auto& batch = head.pass.batch;
  const Matrix& w = head.weights().eh_proj;
  const int64_t hidden = h.hidden, wide = h.wide(), stride = hidden + wide;
  CHECK(w.cols == 2 * hidden && w.rows == hidden);
  k.embed(queue, batch, {head.pass.model->weights.embed, s.ids, s.u, hidden, 1});
  hidden_norm(head, queue, head.mtp.joined + hidden, stride);
  const bool integers = format::type_info(w.type).quantised && !head.pass.model->numerics.float_activations;
  for (int32_t stream = 0; stream < h.hc_count; ++stream) {
    float* pair = head.mtp.joined + stream * hidden;
    k.rms_norm(queue, batch,
               {s.u, hidden, hidden, head.weights().embed_norm, 0, 1, h.hidden, h.rms_eps, pair, stride, hidden});
    if (integers) k.quantize(queue, batch, {pair, stride, 2 * hidden, s.xq});
    k.matmul(queue, batch, {w, pair, stride, integers ? s.xq : kernels::QuantRows{}, s.x + stream * hidden, wide});
  }
}

void project_outputs(const HeadPass& head, StageOutputs& outputs) {
  const auto& h = head.hyper();
  const auto& s = *head.pass.scratch;
  const int64_t rows = head.pass.batch.rows;
  outputs.add(s.q_gate, rows, int64_t{h.heads} * (h.key_dim + h.value_dim));
  outputs.add(s.k, rows, int64_t{h.kv_heads} * h.key_dim);
  outputs.add(s.v, rows, int64_t{h.kv_heads} * h.value_dim);
}

void store_outputs(const HeadPass& head, StageOutputs& outputs) {
  const auto& h = head.hyper();
  outputs.add(head.pass.scratch->q, head.pass.batch.rows, int64_t{h.heads} * h.key_dim);
  outputs.add(head.pass.scratch->k, head.pass.batch.rows, int64_t{h.kv_heads} * h.key_dim);
}

void head_read(const HeadPass& head, device::Queue& queue) {
  const auto& s = *head.pass.scratch;
  const int64_t wide = head.hyper().wide();
  if (!head.pass.all_logits) head.kernels().gather_last(queue, head.pass.batch, {s.x, wide, wide, s.last_x, wide});
  hyper_read(head.pass, head.logit_rows(), queue, head.weights().head, head.pass.all_logits ? s.x : s.last_x);
}

// The outputs of a trunk stage that has the same ones, whatever its layer.
template <const StageFunctions& kTrunk>
void outputs_of(const HeadPass& head, StageOutputs& outputs) {
  kTrunk.outputs(head.pass, -1, outputs);
}

using Q = device::Queue;
constexpr HeadStage kStages[] = {
    {"mtp_join", false, join, outputs_of<kEmbed>},
    {"mtp_attn_read", false,
     [](const HeadPass& p, Q& q) { hyper_read(p.pass, p.pass.batch, q, p.weights().layer.attn, p.pass.scratch->x); },
     outputs_of<kAttnRead>},
    {"mtp_attn_project", false, [](const HeadPass& p, Q& q) { attention_project(p.pass, q, p.attention()); },
     project_outputs},
    {"mtp_attn_store", false, [](const HeadPass& p, Q& q) { attention_store(p.pass, q, p.attention()); },
     store_outputs},
    {"mtp_attention", false, [](const HeadPass& p, Q& q) { attention_attend(p.pass, q, p.attention()); },
     outputs_of<kAttention>},
    {"mtp_attn_out", false, [](const HeadPass& p, Q& q) { attention_out(p.pass, q, p.attention()); },
     outputs_of<kAttnOut>},
    {"mtp_attn_write", false, [](const HeadPass& p, Q& q) { hyper_write(p.pass, q); }, outputs_of<kAttnWrite>},
    {"mtp_ffn_read", false,
     [](const HeadPass& p, Q& q) { hyper_read(p.pass, p.pass.batch, q, p.weights().layer.ffn, p.pass.scratch->x); },
     outputs_of<kFfnRead>},
    {"mtp_router", false, [](const HeadPass& p, Q& q) { moe_router(p.pass, q, p.weights().layer.moe); },
     outputs_of<kRouter>},
    {"mtp_experts", false, [](const HeadPass& p, Q& q) { moe_experts(p.pass, q, p.weights().layer.moe); },
     outputs_of<kExperts>},
    {"mtp_shared", false, [](const HeadPass& p, Q& q) { moe_shared(p.pass, q, p.weights().layer.moe); },
     outputs_of<kShared>},
    {"mtp_ffn_write", false, [](const HeadPass& p, Q& q) { hyper_write(p.pass, q); }, outputs_of<kFfnWrite>},
    {"mtp_head_read", true, head_read, outputs_of<kHeadRead>},
    {"mtp_logits", true,
     [](const HeadPass& p, Q& q) {
       Products(p.pass, p.logit_rows(), q, p.pass.scratch->u, p.hyper().hidden)(p.pass.model->weights.output,
                                                                                p.pass.scratch->logits);
     },
     outputs_of<kLogits>},
};

}  // namespace

MtpPages make_mtp_pages(const format::HyperParams& hyper, kernels::CacheType kv, int32_t page_tokens) {
  const int64_t element = kernels::cache_bytes(kv);
  const int64_t k_row = int64_t{hyper.kv_heads} * hyper.key_dim * element;
  const int64_t v_row = int64_t{hyper.kv_heads} * hyper.value_dim * element;
  const uint64_t v_offset = align_up(static_cast<uint64_t>(k_row * page_tokens), 64);
  return {{0, k_row, 1}, {v_offset, v_row, 1}, align_up(v_offset + static_cast<uint64_t>(v_row * page_tokens), 64)};
}

MtpScratch carve_mtp_scratch(const format::HyperParams& hyper, const PassLimits& limits, std::byte* base) {
  // The head attends densely, whatever the trunk's layers are: one full dense layer sizes the attention's scratch.
  format::HyperParams dense = hyper;
  dense.compress_ratio.assign(dense.compress_ratio.size(), 0);
  dense.layer_kind.assign(dense.layer_kind.size(), format::LayerKind::full);
  dense.ple.clear();
  MtpScratch mtp{carve_scratch(dense, limits, 0, base), nullptr, nullptr, 0};
  const auto place = [&](float*& array, int64_t width) {
    if (base != nullptr) array = reinterpret_cast<float*>(base + mtp.bytes);
    mtp.bytes = align_up(mtp.bytes + static_cast<uint64_t>(limits.rows * width) * sizeof(float), 64);
  };
  mtp.bytes = mtp.scratch.bytes;
  place(mtp.hidden, hyper.wide());
  place(mtp.joined, hyper.wide() + hyper.hidden);
  return mtp;
}

Status run_mtp(const Pass& pass, const MtpScratch& mtp, const MtpPages& pages, HiddenNorm norm,
               device::Device& device) {
  CHECK(pass.model->weights.mtp.has_value() && pass.scratch == &mtp.scratch);
  const HeadPass head{pass, mtp, pages, norm};
  int32_t index = 0;
  for (const HeadStage& stage : kStages) {
    StageOutputs outputs;
    stage.outputs(head, outputs);
    const std::span<const device::StageOutput> blocks(outputs.blocks.data(), static_cast<size_t>(outputs.count));
    const device::StageInfo info{
        stage.name, -1, index++, blocks, {pass.scratch->status, static_cast<size_t>(pass.batch.sequences)}};
    EVROS_TRY(launch_checked(pass, info, stage.logit_rows ? head.logit_rows() : pass.batch, device,
                             [&](device::Queue& queue) { stage.run(head, queue); }));
  }
  return device.finish();
}

}  // namespace evros::model
