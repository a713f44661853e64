/* SPDX-License-Identifier: MIT */
/* host_cpu.c - to be preloaded: LLVM, in Mesa's software device, then compiles for any CPU of this architecture.
 *
 * LLVM takes the CPU's name for its instruction set.  A virtual machine may hide SVE of a CPU that has it; what LLVM
 * makes for the name is then an illegal instruction. */
#include <stddef.h>

struct name {
    const char *text;
    size_t len;
};

struct name generic(void) __asm__("_ZN4llvm3sys14getHostCPUNameEv"); /* StringRef llvm::sys::getHostCPUName() */

__attribute__((visibility("default"))) struct name generic(void)
{
    return (struct name){ "generic", 7 };
}
