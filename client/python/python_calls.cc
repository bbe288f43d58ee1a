#include "client/python/python_calls.h"

#include <dlfcn.h>

#include <type_traits>

#include "client/python/python_helper_source.h"

namespace lockstep::client {
namespace {

// A reference to a Python object of any layout.
using Object = void*;

struct PythonApi {
  int (*AddPendingCall)(int (*)(void*), void*);
  int (*IsInitialized)();
  Object (*CompileString)(const char* source, const char* file, int start);
  Object (*EvalCode)(Object code, Object globals, Object locals);
  Object (*GetBuiltins)();  // a borrowed reference, like the result of GetItemString
  Object (*NewDict)();
  int (*SetItemString)(Object dict, const char* key, Object value);
  Object (*GetItemString)(Object dict, const char* key);
  Object (*CallObject)(Object callable, Object arguments);
  int (*BytesAsStringAndSize)(Object bytes, char** text, ptrdiff_t* size);
  Object (*UnicodeAsUtf8String)(Object text);
  int (*ExceptionMatches)(Object type);
  void (*ClearError)();
  void (*DecRef)(Object object);
  Object* exception;  // PyExc_Exception
};

constexpr int kFileInput = 257;  // Py_file_input

// Written by the agent's thread before it posts the first call, and read by Python's main thread afterwards.
constinit PythonApi g_api{};
constinit bool g_found = false;
// Used only by Python's main thread: the dictionary in which our Python code has run. It stays until the
// process ends.
constinit Object g_module = nullptr;

bool Find(Sentence* why) {
  if (!g_found) {
    const char* missing = nullptr;
    const auto must = [&](auto* slot, const char* name) {
      *slot = reinterpret_cast<std::remove_reference_t<decltype(*slot)>>(::dlsym(RTLD_DEFAULT, name));
      if (*slot == nullptr && missing == nullptr) missing = name;
    };
    must(&g_api.AddPendingCall, "Py_AddPendingCall");
    if (missing != nullptr) {
      *why << "the process runs no Python";
      return false;
    }
    must(&g_api.IsInitialized, "Py_IsInitialized");
    must(&g_api.CompileString, "Py_CompileString");
    must(&g_api.EvalCode, "PyEval_EvalCode");
    must(&g_api.GetBuiltins, "PyEval_GetBuiltins");
    must(&g_api.NewDict, "PyDict_New");
    must(&g_api.SetItemString, "PyDict_SetItemString");
    must(&g_api.GetItemString, "PyDict_GetItemString");
    must(&g_api.CallObject, "PyObject_CallObject");
    must(&g_api.BytesAsStringAndSize, "PyBytes_AsStringAndSize");
    must(&g_api.UnicodeAsUtf8String, "PyUnicode_AsUTF8String");
    must(&g_api.ExceptionMatches, "PyErr_ExceptionMatches");
    must(&g_api.ClearError, "PyErr_Clear");
    must(&g_api.DecRef, "Py_DecRef");
    must(&g_api.exception, "PyExc_Exception");
    if (missing != nullptr) {
      *why << "the process's Python lacks the function " << missing;
      return false;
    }
    g_found = true;
  }
  if (g_api.IsInitialized() == 0) {
    *why << "the process's Python is not initialised";
    return false;
  }
  return true;
}

bool Post(int (*call)(void*), void* data) {
  return g_api.IsInitialized() != 0 && g_api.AddPendingCall(call, data) == 0;
}

// Handles the failure of a Python function.
PythonRan Failed(const char* where, Sentence* error) {
  if (g_api.ExceptionMatches(*g_api.exception) == 0) return PythonRan::kRaised;
  g_api.ClearError();
  *error << "Python could not " << where;
  return PythonRan::kError;
}

PythonRan Prepare(Sentence* error) {
  if (g_module != nullptr) return PythonRan::kDone;
  const Object module = g_api.NewDict();
  if (module == nullptr) return Failed("create a dictionary", error);
  Object done = nullptr;
  if (g_api.SetItemString(module, "__builtins__", g_api.GetBuiltins()) == 0) {
    if (const Object code = g_api.CompileString(kPythonHelperSource, "<lockstep>", kFileInput)) {
      done = g_api.EvalCode(code, module, module);
      g_api.DecRef(code);
    }
  }
  if (done == nullptr) {
    g_api.DecRef(module);
    return Failed("run Lockstep's helper", error);
  }
  g_api.DecRef(done);
  g_module = module;
  return PythonRan::kDone;
}

// Calls a function of ours. The caller owns the result.
PythonRan Call(const char* function, Object* result, Sentence* error) {
  if (const PythonRan ran = Prepare(error); ran != PythonRan::kDone) return ran;
  *result = g_api.CallObject(g_api.GetItemString(g_module, function), nullptr);
  return *result == nullptr ? Failed("run Lockstep's helper", error) : PythonRan::kDone;
}

// Reads a text object. Returns false if the object is not a text.
bool ReadText(Object text, Sentence* out) {
  const Object bytes = g_api.UnicodeAsUtf8String(text);
  char* at = nullptr;
  ptrdiff_t size = 0;
  if (bytes == nullptr || g_api.BytesAsStringAndSize(bytes, &at, &size) != 0) {
    g_api.ClearError();
    return false;
  }
  out->Append(at, static_cast<size_t>(size));
  g_api.DecRef(bytes);
  return true;
}

PythonRan Begin(Sentence* error) {
  Object result = nullptr;
  if (const PythonRan ran = Call("begin", &result, error); ran != PythonRan::kDone) return ran;
  const bool has_error = ReadText(result, error);
  g_api.DecRef(result);
  return has_error ? PythonRan::kError : PythonRan::kDone;
}

PythonRan End(const ProfileReceiver& receiver, Sentence* error) {
  Object result = nullptr;
  if (const PythonRan ran = Call("end", &result, error); ran != PythonRan::kDone) return ran;
  const bool has_error = ReadText(result, error);
  char* bytes = nullptr;
  ptrdiff_t size = 0;
  const bool got = !has_error && g_api.BytesAsStringAndSize(result, &bytes, &size) == 0;
  if (got) receiver.take(receiver.context, bytes, static_cast<size_t>(size));
  g_api.DecRef(result);
  if (got || has_error) return has_error ? PythonRan::kError : PythonRan::kDone;
  return Failed("return the profile", error);
}

}  // namespace

constinit const PythonCalls kProcessPython = {Find, Post, Begin, End, Prepare};

}  // namespace lockstep::client
