#include "text/jinja.h"

#include <boost/json.hpp>
#include <new>

#include "base/str.h"
#include "text/jinja_ast.h"
#include "text/jinja_interpreter.h"
#include "text/utf8.h"

namespace evros::text::jinja {
namespace {

constexpr size_t kMaxSourceBytes = size_t{4} << 20;
constexpr size_t kMaxJsonDepth = 100;

Value from_json(const boost::json::value& json) {
  switch (json.kind()) {
    case boost::json::kind::null:
      return {};
    case boost::json::kind::bool_:
      return json.get_bool();
    case boost::json::kind::int64:
      return int64_t{json.get_int64()};
    case boost::json::kind::uint64:
      return static_cast<double>(json.get_uint64());
    case boost::json::kind::double_:
      return json.get_double();
    case boost::json::kind::string:
      return std::string_view(json.get_string().data(), json.get_string().size());
    case boost::json::kind::array: {
      std::vector<Value> items;
      for (const auto& item : json.get_array()) items.push_back(from_json(item));
      return Value::list(std::move(items));
    }
    case boost::json::kind::object: {
      std::vector<std::pair<std::string, Value>> entries;
      for (const auto& [key, item] : json.get_object())
        entries.emplace_back(std::string(key.data(), key.size()), from_json(item));
      return Value::map(std::move(entries));
    }
  }
  return {};
}

}  // namespace

struct Template::Tree {
  Body body;
};

Result<Template> Template::parse(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    return Error{Code::bad_file,
                 cat("the chat template has ", source.size(), " bytes; at most ", kMaxSourceBytes, " are possible")};
  }
  if (const auto wrong = find_invalid_utf8(source)) {
    return Error{Code::bad_file, cat("the chat template is not valid UTF-8 at byte ", *wrong)};
  }
  try {
    Template out;
    out.tree_ = std::make_shared<const Tree>(Tree{parse_template(source)});
    return out;
  } catch (const Failure& failure) {
    return Error{failure.code, cat("the chat template is not usable: ", failure.message)};
  } catch (const std::bad_alloc&) {
    return Error{Code::out_of_memory, "there is no memory for the chat template"};
  }
}

Result<std::string> Template::render(const Context& context, const Limits& limits) const {
  try {
    std::string out;
    Interpreter(limits, out).render(tree_->body, context);
    return out;
  } catch (const Failure& failure) {
    return Error{failure.code, cat("the chat template fails: ", failure.message)};
  } catch (const std::bad_alloc&) {
    return Error{Code::out_of_memory, "there is no memory to render the chat template"};
  }
}

Result<Value> value_from_json(std::string_view json) {
  boost::json::error_code failure;
  boost::json::parse_options options;
  options.max_depth = kMaxJsonDepth;
  const boost::json::value value =
      boost::json::parse(boost::json::string_view(json.data(), json.size()), failure, {}, options);
  if (failure) return Error{Code::invalid_argument, cat("not valid JSON: ", failure.message())};
  try {
    return from_json(value);
  } catch (const Failure& deep) {
    return Error{deep.code, deep.message};
  }
}

}  // namespace evros::text::jinja
