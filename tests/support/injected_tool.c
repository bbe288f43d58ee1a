/* Another tool for CUDA_INJECTION64_PATH. It writes to the file $INJECTED_TOOL_SAYS that CUDA has called it.
 */
#include <stdio.h>
#include <stdlib.h>

int InitializeInjection(void) {
  const char* path = getenv("INJECTED_TOOL_SAYS");
  FILE* file = path == NULL ? NULL : fopen(path, "a");
  if (file != NULL) {
    fputs("called\n", file);
    fclose(file);
  }
  return 1;
}
