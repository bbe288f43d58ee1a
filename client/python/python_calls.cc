#include "client/python/python_calls.h"

#include <dlfcn.h>

#include <type_traits>

#include "client/python_helper_source.h"

namespace lockstep::client {
namespace {

// A reference to a Python object, whatever its layout.
using Object = void*;

struct PythonApi {
  int (*AddPendingCall)(int (*)(void*), void*);
  int (*IsInitialized)();
  Object (*CompileString)(const char* source, const char* file, int start);
  Object (*EvalCode)(Object code, Object globals, Object locals);
  Object (*GetBuiltins)();  // borrowed, as what GetItemString gives
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

// Written by our thread before the first call is posted, read by Python's main thread after.
constinit PythonApi g_api{};
constinit bool g_found = false;
// Python's main thread only: the dictionary our Python has run in, for the life of the process.
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
      *why << "its process runs no Python";
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
      *why << "the Python of its process lacks the function " << missing;
      return false;
    }
    g_found = true;
  }
  if (g_api.IsInitialized() == 0) {
    *why << "the Python of its process does not run";
    return false;
  }
  return true;
}

bool Post(int (*call)(void*), void* data) {
  return g_api.IsInitialized() != 0 && g_api.AddPendingCall(call, data) == 0;
}

// After a Python function has failed.
PythonRan Failed(const char* where, Sentence* trouble) {
  if (g_api.ExceptionMatches(*g_api.exception) == 0) return PythonRan::kRaised;
  g_api.ClearError();
  *trouble << "Python could not " << where;
  return PythonRan::kTrouble;
}

PythonRan Prepare(Sentence* trouble) {
  if (g_module != nullptr) return PythonRan::kDone;
  const Object module = g_api.NewDict();
  if (module == nullptr) return Failed("make a dictionary", trouble);
  Object done = nullptr;
  if (g_api.SetItemString(module, "__builtins__", g_api.GetBuiltins()) == 0) {
    if (const Object code = g_api.CompileString(kPythonHelperSource, "<lockstep>", kFileInput)) {
      done = g_api.EvalCode(code, module, module);
      g_api.DecRef(code);
    }
  }
  if (done == nullptr) {
    g_api.DecRef(module);
    return Failed("run Lockstep's part in it", trouble);
  }
  g_api.DecRef(done);
  g_module = module;
  return PythonRan::kDone;
}

// Calls a function of ours, whose result the caller owns.
PythonRan Call(const char* function, Object* result, Sentence* trouble) {
  if (const PythonRan ran = Prepare(trouble); ran != PythonRan::kDone) return ran;
  *result = g_api.CallObject(g_api.GetItemString(g_module, function), nullptr);
  return *result == nullptr ? Failed("run Lockstep's part in it", trouble) : PythonRan::kDone;
}

// A text, or what is no text: then false.
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

PythonRan Begin(Sentence* trouble) {
  Object result = nullptr;
  if (const PythonRan ran = Call("begin", &result, trouble); ran != PythonRan::kDone) return ran;
  const bool told = ReadText(result, trouble);
  g_api.DecRef(result);
  return told ? PythonRan::kTrouble : PythonRan::kDone;
}

PythonRan End(const ProfileTaker& taker, Sentence* trouble) {
  Object result = nullptr;
  if (const PythonRan ran = Call("end", &result, trouble); ran != PythonRan::kDone) return ran;
  const bool told = ReadText(result, trouble);
  char* bytes = nullptr;
  ptrdiff_t size = 0;
  const bool got = !told && g_api.BytesAsStringAndSize(result, &bytes, &size) == 0;
  if (got) taker.take(taker.context, bytes, static_cast<size_t>(size));
  g_api.DecRef(result);
  if (got || told) return told ? PythonRan::kTrouble : PythonRan::kDone;
  return Failed("give the profile", trouble);
}

}  // namespace

constinit const PythonCalls kProcessPython = {Find, Post, Begin, End, Prepare};

}  // namespace lockstep::client
