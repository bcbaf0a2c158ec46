# SPDX-License-Identifier: Apache-2.0
"""From a checked LLVM module to an address in this process; it knows nothing of packets."""

from __future__ import annotations

import ctypes
import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

import llvmlite.binding as llvm
import llvmlite.ir as ll

OPT_LEVEL = 2
# Programs: a controller that pushes one again does not wait for it again.
MAX_KEPT = 32

_objects: OrderedDict[str, bytes] = OrderedDict()  # digest of a module's text -> object code


@dataclass(frozen=True)
class NativeCode:
    """Compiled code; `engine` owns the memory it lives in and must be kept alive with it."""

    engine: llvm.ExecutionEngine
    address: int

    def function(self, num_pointers: int) -> ctypes._FuncPointer:
        """Return the entry point as a C function of pointers that returns an int64."""
        signature = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * num_pointers)
        return signature(self.address)


def machine() -> llvm.TargetMachine:
    """The processor this runs on, with all it can do."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=OPT_LEVEL,
    )


def compile_module(module: ll.Module, entry: str, symbols: Mapping[str, int]) -> NativeCode:
    """Verify, optimise and compile; `symbols` gives the addresses of external globals."""
    target = machine()
    text = str(module)
    parsed = llvm.parse_assembly(text)
    parsed.name = hashlib.sha256(text.encode()).hexdigest()
    if parsed.name not in _objects:
        parsed.verify()
        optimise(parsed, target)
    engine = llvm.create_mcjit_compiler(parsed, target)
    engine.set_object_cache(_keep, _kept)
    for variable in parsed.global_variables:
        if variable.name in symbols:  # the optimiser may have dropped some
            engine.add_global_mapping(variable, symbols[variable.name])
    engine.finalize_object()
    _give_back_memory()
    return NativeCode(engine, engine.get_function_address(entry))


def _give_back_memory() -> None:
    """What LLVM used and freed: glibc would keep it, once for each thread that ever compiles."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _keep(module: llvm.ModuleRef, code: bytes) -> None:
    _objects[module.name] = code
    while len(_objects) > MAX_KEPT:
        _objects.popitem(last=False)


def _kept(module: llvm.ModuleRef) -> bytes | None:
    return _objects.get(module.name)


def optimise(module: llvm.ModuleRef, target: llvm.TargetMachine) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=OPT_LEVEL)
    builder = llvm.create_pass_builder(target, options)
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    # It does not free itself: its class takes `_dispose` from its other parent, whose is empty.
    llvm.NewPassManager._dispose(passes)
    passes.detach()
