# ipulua: make help lists the targets.
.DEFAULT_GOAL := all
ifeq ($(origin CC),default)
CC := gcc
endif
BUILD ?= build
PREFIX ?= /usr/local
# Optional parts: auto (if the library is there), yes or no.
WITH_LIBEDIT ?= auto
WITH_LIBPNG ?= auto
WITH_LIBJPEG ?= auto
WITH_HDF5 ?= auto
WITH_OPENMPI ?= auto
WITH_MPICH ?= auto
# Opened when it is needed, linked with nothing: auto installs it with the rest, yes insists that it is here, no never opens it.
WITH_OPENBLAS ?= auto
CFLAGS ?= -O3
PKG_CONFIG ?= pkg-config

LAYERS := base dist tensor kernels target graph ops transform program machine engine data
ABI := 0
WARNINGS := -std=c11 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
            -Wpointer-arith -Wwrite-strings -Wundef
# Constants are enumerators; beside a double each is its exact value, of which clang 19 warns.
WARNINGS += $(if $(findstring clang,$(CC)),-Wno-enum-float-conversion)
LUA_CFLAGS := $(shell $(PKG_CONFIG) --cflags lua5.4 2>/dev/null)
LUA_LIBS := $(shell $(PKG_CONFIG) --libs lua5.4 2>/dev/null)
JSON_LIBS := $(shell $(PKG_CONFIG) --libs jansson 2>/dev/null)
ZIP_LIBS := $(shell $(PKG_CONFIG) --libs libzip 2>/dev/null)
# Of each part that may be left out, what pkg-config and Debian call it.
OPTIONAL := LIBEDIT LIBPNG LIBJPEG HDF5 OPENMPI MPICH
PC_LIBEDIT := libedit
PC_LIBPNG := libpng
PC_LIBJPEG := libjpeg
PC_HDF5 := hdf5
PC_OPENMPI := ompi-c
PC_MPICH := mpich
DEB_LIBEDIT := libedit-dev
DEB_LIBPNG := libpng-dev
DEB_LIBJPEG := libjpeg62-turbo-dev
DEB_HDF5 := libhdf5-dev
DEB_OPENMPI := libopenmpi-dev
DEB_MPICH := libmpich-dev
DEB_OPENBLAS := libopenblas0
$(foreach part,$(OPTIONAL) OPENBLAS,$(if $(filter auto yes no,$(WITH_$(part))),,$(error WITH_$(part) is auto, yes or no, not \
  "$(WITH_$(part))")))
# (LIBEDIT): pkg-config's name when that part is wanted and there; nothing otherwise, not even a blank
optional = $(strip $(if $(filter no,$(WITH_$(1))),,$(shell $(PKG_CONFIG) --exists $(PC_$(1)) 2>/dev/null && echo $(PC_$(1)))))
cflags_of = $(if $(1),-DHAVE_$(2) $(shell $(PKG_CONFIG) --cflags $(1)))
libs_of = $(if $(1),$(shell $(PKG_CONFIG) --libs $(1)))
$(foreach part,$(OPTIONAL),$(eval $(part) := $(call optional,$(part))))
# Those that the command line insists on.
INSISTED := $(foreach part,$(OPTIONAL),$(if $(filter yes,$(WITH_$(part))),$(part)))
EDIT_CFLAGS := $(call cflags_of,$(LIBEDIT),LIBEDIT)
EDIT_LIBS := $(call libs_of,$(LIBEDIT))
PNG_CFLAGS := $(call cflags_of,$(LIBPNG),LIBPNG)
PNG_LIBS := $(call libs_of,$(LIBPNG))
JPEG_CFLAGS := $(call cflags_of,$(LIBJPEG),LIBJPEG)
JPEG_LIBS := $(call libs_of,$(LIBJPEG))
ALL_CFLAGS = $(WARNINGS) -fPIC -pthread -D_GNU_SOURCE -Isrc -I$(BUILD)/generated -ffp-contract=off -fno-math-errno -fvisibility=hidden $(CFLAGS)
LIBS = $(JSON_LIBS) $(PNG_LIBS) $(JPEG_LIBS) -lz -lm -ldl -pthread

# Libraries that are opened when they are first needed, so that nothing waits for them at start-up. The file that the loader looks for is
# the one that linking would have noted; Debian's package has the same name: libzip.so.4, libzip4.
SONAME = $(shell $$($(CC) -print-prog-name=readelf) -d \
  $(firstword $(wildcard $(patsubst -L%,%/lib$(1).so,$(filter -L%,$(LDFLAGS) $(2)))) $(shell $(CC) -print-file-name=lib$(1).so)) 2>/dev/null | \
  sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
ZIP_FILE = $(or $(call SONAME,zip,$(ZIP_LIBS)),$(error the linker's libzip.so names no file))
EDIT_FILE = $(or $(call SONAME,edit,$(EDIT_LIBS)),$(error the linker's libedit.so names no file))
opened = -D$(1)_FILE='"$(2)"' -D$(1)_PACKAGE='"$(subst .so.,,$(2))"'

# One text of kernels, three instruction sets.
# Of no use on a CPU of this decade.
KERNEL_ISA_base := -O1
KERNEL_ISA_avx2 := -mavx2 -mfma -mf16c
KERNEL_ISA_avx512 := -mavx512f -mavx512vl -mavx512bw -mavx512dq -mfma -mf16c -mprefer-vector-width=512
# Vectorised by hand: more optimisation costs half the build's time and gains nothing.
KERNEL_FILE_matmul := -O2
KERNEL_FILE_panel := -O2
# What never runs in a training step isn't worth the build's time either.
ifeq ($(origin CFLAGS),file)
$(foreach layer,machine target cli lua graph transform program api,$(BUILD)/$(layer)/%.o): CFLAGS := -O1
endif
ISAS := base avx2 avx512
ifeq ($(filter x86_64-%,$(shell $(CC) -dumpmachine 2>/dev/null)),) # what is compiled for, which may be elsewhere
ISAS := base
KERNEL_ISA_base := -O3
$(BUILD)/kernels_check: ALL_CFLAGS += -fno-tree-vectorize # gcc 12 for ARM ends with an internal error there
endif
KERNEL_SOURCES := $(filter-out $(patsubst %,src/kernels/%.c,blas chain chain_build lapack numerics products select),$(wildcard src/kernels/*.c))
SOURCES := $(filter-out $(KERNEL_SOURCES),$(wildcard $(LAYERS:%=src/%/*.c) src/ops/*/*.c))
OBJECTS := $(SOURCES:src/%.c=$(BUILD)/%.o) $(foreach isa,$(ISAS),$(KERNEL_SOURCES:src/%.c=$(BUILD)/%.$(isa).o))
LUA_OBJECTS := $(patsubst src/%.c,$(BUILD)/%.o,$(wildcard src/lua/*.c))
CLI_OBJECTS := $(patsubst src/%.c,$(BUILD)/%.o,$(wildcard src/cli/*.c))
API_OBJECTS := $(patsubst src/%.c,$(BUILD)/%.o,$(wildcard src/api/*.c))
LIBRARY := $(BUILD)/libipulua.so.$(ABI)
# Parts that are modules of their own: the command does without their libraries.
MODULES := HDF5 OPENMPI MPICH
PLUGIN_HDF5 := hdf5
PLUGIN_OPENMPI := comm_openmpi
PLUGIN_MPICH := comm_mpich
PLUGINS := $(foreach part,$(MODULES),$(if $($(part)),$(BUILD)/modules/ipulua/$(PLUGIN_$(part)).so))
# The plug-ins of MPI that cut messages into small pieces, for specs.
PIECES := $(patsubst $(BUILD)/modules/ipulua/comm_%,$(BUILD)/pieces/comm_%,$(filter $(BUILD)/modules/ipulua/comm_%,$(PLUGINS)))

# What building can't do without, said before anything is compiled: pkg-config's name = Debian's.
NEEDED := lua5.4=liblua5.4-dev zlib=zlib1g-dev jansson=libjansson-dev libzip=libzip-dev \
          $(foreach part,$(INSISTED),$(PC_$(part))=$(DEB_$(part)))
.PHONY: needed
needed:
	@mkdir -p '$(BUILD)' 2>/dev/null && test -w '$(BUILD)' || \
	  { echo "$(BUILD) can't be written to; another folder is taken by: make BUILD=folder"; exit 1; } >&2
	@missing=; command -v $(firstword $(CC)) >/dev/null || missing=" $(firstword $(CC))"; \
	if ! command -v $(firstword $(PKG_CONFIG)) >/dev/null; then missing="$$missing pkg-config"; fi; \
	for pair in $(NEEDED); do $(PKG_CONFIG) --exists $${pair%=*} 2>/dev/null || missing="$$missing $${pair#*=}"; done; \
	$(if $(filter yes,$(WITH_OPENBLAS)),PATH="$$PATH:/usr/sbin:/sbin" ldconfig -p | grep -q 'libopenblas\.so\.0 ' || missing="$$missing $(DEB_OPENBLAS)";) \
	test -z "$$missing" || { echo "building needs, by Debian's names:$$missing"; \
	  echo "this brings what is missing: make deps-build$(INSISTED:%= WITH_%=yes)"; exit 1; } >&2
$(OBJECTS) $(LUA_OBJECTS) $(CLI_OBJECTS) $(API_OBJECTS) $(PLUGINS): | needed
$(BUILD)/parts $(BUILD)/generated/ops.inc $(BUILD)/generated/bundle $(BUILD)/luajit/ipulua/ipulua.cdef.h $(BUILD)/ipulua.1: | needed

.PHONY: all plugins
plugins: $(PLUGINS)
all: $(BUILD)/ipulua $(LIBRARY) $(BUILD)/modules/ipulua/core.so $(BUILD)/luajit/ipulua/cdef.lua $(BUILD)/ipulua.1 $(PLUGINS) ## build the command, the C library, the Lua module

$(BUILD)/ipulua.1: src/packaging/ipulua.1 src/target/chips.h
	@$(FILL_IN) $< > $@

$(BUILD)/libipulua.a: $(OBJECTS)
	@rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/ipulua: $(CLI_OBJECTS) $(LUA_OBJECTS) $(BUILD)/libipulua.a
	$(CC) $(CFLAGS) $(LDFLAGS) -rdynamic -o $@ $(CLI_OBJECTS) $(LUA_OBJECTS) $(BUILD)/libipulua.a $(LUA_LIBS) $(LIBS)

# The command with the archives of what it is made of, where there are some; of the system it wants libc and libm, and opens libzip. C
# modules that scripts load find Lua in it, so all of Lua is linked.
as_archive = $(if $(filter -lm -ldl -pthread,$(1)),$(1),$(or $(filter /%,$(shell $(CC) -print-file-name=lib$(1:-l%=%).a)),$(1)))
.PHONY: static
static: $(BUILD)/ipulua-static ## build/ipulua-static: the command, with all libraries that Debian has as archives in it
$(BUILD)/ipulua-static: $(CLI_OBJECTS:%/edit.o=%/edit_linked.o) $(LUA_OBJECTS) $(BUILD)/libipulua.a
	$(CC) $(CFLAGS) $(LDFLAGS) -rdynamic -o $@ $^ -Wl,--whole-archive $(foreach word,$(LUA_LIBS),$(call as_archive,$(word))) -Wl,--no-whole-archive \
	  $(foreach word,$(if $(LIBEDIT),$(shell $(PKG_CONFIG) --static --libs libedit)) $(LIBS),$(call as_archive,$(word)))

# One archive, three artefacts; what the two libraries export is in a map each.
$(LIBRARY): $(API_OBJECTS) $(BUILD)/libipulua.a src/export.map
	$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,$(@F) -Wl,--version-script=src/export.map -o $@ \
	  $(API_OBJECTS) $(BUILD)/libipulua.a $(LIBS)
	@ln -sf $(@F) $(BUILD)/libipulua.so

$(BUILD)/modules/ipulua/core.so: $(LUA_OBJECTS) $(BUILD)/libipulua.a src/export_core.map
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,--version-script=src/export_core.map -o $@ \
	  $(LUA_OBJECTS) $(BUILD)/libipulua.a $(LUA_LIBS) $(LIBS)

# What is large and seldom needed, as a module of its own.
$(BUILD)/modules/ipulua/hdf5.so: $(wildcard src/plugin/hdf5*.c) src/plugin/hdf5_read.h
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(LUA_CFLAGS) $(patsubst -I%,-isystem%,$(shell $(PKG_CONFIG) --cflags-only-I hdf5)) $(LDFLAGS) -shared -o $@ $(filter %.c,$^) \
	  $(call libs_of,$(HDF5)) $(LUA_LIBS)

# One source, each library of MPI. Specs have it with smaller pieces, too.
define comm_plugin
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(patsubst -I%,-isystem%,$(shell $(PKG_CONFIG) --cflags-only-I $(MPI))) $(LDFLAGS) -shared -o $@ $< \
	  $(shell $(PKG_CONFIG) --libs $(MPI))
endef
$(BUILD)/%comm_openmpi.so: MPI := $(OPENMPI)
$(BUILD)/%comm_mpich.so: MPI := $(MPICH)
$(BUILD)/modules/ipulua/comm_%.so: src/plugin/comm_mpi.c src/dist/comm.h
	$(comm_plugin)
$(BUILD)/pieces/comm_%.so: ALL_CFLAGS += -DCOMM_PIECE_BYTES=150000
$(BUILD)/pieces/comm_%.so: src/plugin/comm_mpi.c src/dist/comm.h
	$(comm_plugin)

# The header's marked region, which LuaJIT reads as it stands.
$(BUILD)/luajit/ipulua/ipulua.cdef.h: src/ipulua.h
	@mkdir -p $(@D)
	@sed '1,/ffi.cdef begins/d; /ffi.cdef ends/,$$d' $< > $@
$(BUILD)/luajit/ipulua/cdef.lua: $(BUILD)/luajit/ipulua/ipulua.cdef.h
	@{ echo 'return [==['; cat $<; echo ']==]'; } > $@

$(BUILD)/lua/%.o: src/lua/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(LUA_CFLAGS) -MMD -MP -c -o $@ $<

# The library's Lua files and the page of reports, which the command carries: one text, and where each file begins in it.
BUNDLED := $(sort $(filter-out ffi% tools/embed.lua,$(patsubst lua/ipulua/%,%,$(shell find lua/ipulua -name '*.lua' -o -name '*.html'))))
BUNDLE := $(BUILD)/generated/bundle
$(BUNDLE): $(BUNDLED:%=lua/ipulua/%) $(shell find lua/ipulua -type d)
	@mkdir -p $(@D)
	@(cd lua/ipulua && wc -c $(BUNDLED)) | awk '$$2 != "total" { printf "{\"%s\", %d, %d},\n", $$2, at, $$1; at += $$1 }' > $@.inc
	@(cd lua/ipulua && cat $(BUNDLED)) > $@
$(BUILD)/cli/bundle.o: $(BUNDLE)
$(BUILD)/cli/bundle.o: ALL_CFLAGS += -DBUNDLE='"$(BUNDLE)"'

$(BUILD)/cli/%.o: src/cli/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(LUA_CFLAGS) -MMD -MP -c -o $@ $<

define kernel_rule
$(BUILD)/kernels/%.$(1).o: src/kernels/%.c
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) -fno-trapping-math $$(KERNEL_ISA_$(1)) $$(KERNEL_FILE_$$(*F)) -DKERNEL_ISA=$(1) -MMD -MP -c -o $$@ $$<
endef
$(foreach isa,$(ISAS),$(eval $(call kernel_rule,$(isa))))

# The files of src/ops each export rows named ops_<file>; the registry includes this list.
OPS_SOURCES := $(filter-out src/ops/registry.c,$(wildcard src/ops/*.c src/ops/*/*.c))
$(BUILD)/generated/ops.inc: $(sort $(dir $(OPS_SOURCES))) $(OPS_SOURCES)
	@mkdir -p $(@D)
	@sed -nE 's/^const OpDef ops_([a-z0-9_]+)\[\].*/OPS(\1)/p' $(OPS_SOURCES) | sort > $@
$(BUILD)/ops/registry.o: $(BUILD)/generated/ops.inc

# Which optional parts are in: written when that changes, and then what depends on it is made anew.
PARTS := $(strip $(foreach part,$(OPTIONAL),$($(part))) $(if $(filter no,$(WITH_OPENBLAS)),,openblas))
.PHONY: FORCE
$(BUILD)/parts: FORCE
	@mkdir -p $(@D)
	@test "$(PARTS)" = "$$(cat $@ 2>/dev/null)" && test -e $@ || echo "$(PARTS)" > $@
	@rm -f $(foreach part,$(MODULES),$(if $($(part)),,$(BUILD)/modules/ipulua/$(PLUGIN_$(part)).so))
$(BUILD)/cli/edit.o $(BUILD)/cli/edit_linked.o $(BUILD)/tensor/image.o $(BUILD)/kernels/blas.o: $(BUILD)/parts

$(BUILD)/cli/edit.o $(BUILD)/cli/edit_linked.o: ALL_CFLAGS += $(if $(LIBEDIT),$(EDIT_CFLAGS) $(call opened,LIBEDIT,$(EDIT_FILE)))
$(BUILD)/cli/edit_linked.o: src/cli/edit.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(LUA_CFLAGS) -DLINKED_LIBEDIT -MMD -MP -c -o $@ $<
$(BUILD)/tensor/npz.o: ALL_CFLAGS += $(call opened,LIBZIP,$(ZIP_FILE))
$(BUILD)/kernels/blas.o: ALL_CFLAGS += $(if $(filter no,$(WITH_OPENBLAS)),-DWITHOUT_OPENBLAS)
$(BUILD)/tensor/image.o: ALL_CFLAGS += $(PNG_CFLAGS) $(JPEG_CFLAGS)
$(BUILD)/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# What Lua's specs can't reach; `build/tensor_check` runs from the repository's root. Allocation is wrapped, so
# that each one can be made to fail, and dlsym, so that calls of libzip can.
$(BUILD)/tensor_check: spec/support/tensor_check.c $(BUILD)/libipulua.a
	$(CC) $(ALL_CFLAGS) $(JPEG_CFLAGS) $(LDFLAGS) \
	  -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup,--wrap=dlsym \
	  -MMD -MP -o $@ $< $(BUILD)/libipulua.a $(LIBS)

# The same for base/, whose calls of the system are made to fail or to say what the check wants.
$(BUILD)/base_check: spec/support/base_check.c $(BUILD)/libipulua.a
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -Wl,--wrap=fopen,--wrap=fsync,--wrap=close,--wrap=rename \
	  -MMD -MP -MF $@.d -o $@ $< $(BUILD)/libipulua.a $(LIBS)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)

# Programs that check what Lua can't reach: each prints "N passed, N failed" last.
CHECKS := $(patsubst spec/support/%.c,$(BUILD)/%,$(wildcard spec/support/*_check.c))
$(BUILD)/%_check: spec/support/%_check.c $(BUILD)/libipulua.a
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -MMD -MP -MF $@.d -o $@ $< $(BUILD)/libipulua.a $(LIBS)

# A plug-in for communication that needs no MPI: what specs of several processes run with.
$(BUILD)/comm_stub.so: spec/support/comm_stub.c src/dist/comm.h
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -shared -o $@ $<

# A malloc that fails where a script wants it.
$(BUILD)/failing.so: spec/support/failing.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -Wall -Wextra -O1 -fPIC -shared $(LUA_CFLAGS) -o $@ $<

.PHONY: comm-stub
comm-stub: $(BUILD)/comm_stub.so $(PIECES)

# The sweep over the registry, with the naive evaluator that it compares with.
$(BUILD)/ops_check: $(addprefix spec/support/,ops_check.c interpret.c samples.c) $(BUILD)/libipulua.a
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

# The same rows' second derivatives; in every form that ops run in; called badly.
$(BUILD)/second_check $(BUILD)/forms_check $(BUILD)/misuse_check: $(BUILD)/%: spec/support/%.c $(addprefix spec/support/,interpret.c samples.c) $(BUILD)/libipulua.a
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

# Every row on both sides of the sizes at which the code takes another way.
$(BUILD)/sizes_check: $(addprefix spec/support/,sizes_check.c sizes.c sizes_plain.c interpret.c samples.c) $(BUILD)/libipulua.a
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

# Prices of every row at random shapes.
$(BUILD)/price_check: $(addprefix spec/support/,price_check.c samples.c) $(BUILD)/libipulua.a
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

# The C interface as a program sees it that was linked with the library.
$(BUILD)/api_check: spec/support/api_check.c src/ipulua.h $(LIBRARY) $(BUILD)/modules/ipulua/core.so
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $< $(LIBRARY) -Wl,-rpath,'$$ORIGIN' -lm

# Random graphs, compiled and naively.
$(BUILD)/graphs_check: $(addprefix spec/support/,graphs_check.c interpret.c) $(BUILD)/libipulua.a
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

# Speeds: build/kernels_bench [instruction set], build/nn_bench [threads] [names].
$(BUILD)/%_bench: spec/support/%_bench.c $(BUILD)/libipulua.a
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -MMD -MP -MF $@.d -o $@ $< $(BUILD)/libipulua.a $(LIBS)

# The workloads of examples/bench; PEERS=1: in turn with the peers that are installed. More in docs/performance.md.
PEERS ?=
ROUNDS ?= $(if $(PEERS),3,1)
.PHONY: bench
bench: all ## run the workloads of examples/bench (PEERS=1: next to PyTorch, in turn)
	@IPULUA=$(BUILD)/ipulua $(BUILD)/ipulua examples/bench/run.lua --rounds $(ROUNDS) $(if $(PEERS),--peers) $(BENCH_ARGS)

.PHONY: bench-processes
bench-processes: all ## a training step on two processes, by each MPI, next to one process and PyTorch's DDP (ROUNDS=3)
	@IPULUA=$(BUILD)/ipulua $(BUILD)/ipulua examples/bench/processes.lua --rounds $(if $(filter 1,$(ROUNDS)),3,$(ROUNDS))

# Of one instruction set in a process: the library takes one core.
.PHONY: bench-gemm
bench-gemm: $(BUILD)/kernels_bench ## products by our kernels and by OpenBLAS, by shape and instruction set (ISA=avx2: only that)
	@for isa in $(or $(ISA),base avx2 avx512); do $(BUILD)/kernels_bench $$isa gemm || true; done

.PHONY: bench-ops
bench-ops: all $(BUILD)/ops_bench ## our ops next to PyTorch's on 1 and 2 threads (NAMES=: only those)
	@OPS_BENCH=$(BUILD)/ops_bench $(BUILD)/ipulua examples/bench/ops.lua $(NAMES)

# The machine model against published figures: make validate BENCH=file OUT=file
BENCH ?= spec/machine/benchmarks.jsonl
OUT ?= $(BUILD)/validate.jsonl
$(BUILD)/validate: spec/support/validate.c $(BUILD)/libipulua.a
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -MMD -MP -MF $@.d -o $@ $< $(BUILD)/libipulua.a $(LIBS)
.PHONY: validate
validate: $(BUILD)/validate all ## predicted against published cycles and memory of the machine model
	@$(BUILD)/validate $(BENCH) $(OUT)
	@test '$(BENCH)' != spec/machine/benchmarks.jsonl || IPULUA_LOG=error $(BUILD)/ipulua spec/support/programs.lua

.PHONY: checks
checks: $(CHECKS) $(BUILD)/validate comm-stub $(BUILD)/failing.so ## build the C check programs

space := $(subst x,,x x)
# What Debian calls the things that we need.
PACKAGES_BUILD := gcc make pkg-config lua5.4 liblua5.4-dev zlib1g-dev libjansson-dev libzip-dev \
  $(foreach part,$(filter-out $(MODULES),$(OPTIONAL)) OPENBLAS,$(if $(filter-out no,$(WITH_$(part))),$(DEB_$(part)))) \
  $(foreach part,$(filter $(MODULES),$(INSISTED)),$(DEB_$(part)))
PACKAGES_TEST := lua-busted lua-check clang-format-19 luajit libhdf5-dev python3-h5py python3 python3-numpy python3-onnx build-essential binutils git luarocks lua-cjson nodejs \
                 lua-socket lua-filesystem debhelper man-db tzdata locales libopenmpi-dev libmpich-dev openmpi-bin mpich
define install_packages
	@missing=$$(for p in $(1); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q ' installed' || echo $$p; done); \
	test -z "$$missing" && exit 0; \
	command -v apt-get >/dev/null || { echo "without apt-get this must be here, by Debian's names:" $$missing; exit 0; }; \
	sudo=; test "$$(id -u)" = 0 || sudo=sudo; \
	echo "installing" $$missing; \
	$$sudo apt-get -q update >/dev/null; \
	said=$$($$sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends $$missing 2>&1 >/dev/null) || \
	  { echo "$$said"; exit 1; } >&2
endef

.PHONY: deps deps-build deps-test
deps: deps-build deps-test ## install all packages that are missing (apt-get, with sudo unless root)
deps-build: ## install what building needs
	$(call install_packages,$(PACKAGES_BUILD))
deps-test: ## install what the tests need besides
	$(call install_packages,$(PACKAGES_TEST))
	@test -d $(BUILD)/npm/node_modules/onnxruntime-web || ! command -v npm >/dev/null || \
	  npm install --silent --no-audit --no-fund --fetch-retries=0 --prefix $(BUILD)/npm onnxruntime-web@1.17.3 >/dev/null 2>&1 || \
	  echo "without onnxruntime-web one check of ONNX files is left out"

# A make of its own: only then are packages found that deps has just installed.
JOBS ?= $(shell nproc)
SUBMAKE = $(MAKE) --no-print-directory -s $(if $(findstring j,$(MAKEFLAGS)),,-j$(JOBS))

.PHONY: demo test check nightly nightly-specs new-seeds lint lint-lua lint-symbols lint-format format lint-objects debug asan tsan
demo: deps-build ## build, then train the model of examples/start/mnist.lua
	@test -x $(BUILD)/ipulua || echo "building $(BUILD)/ipulua"
	+@$(SUBMAKE) $(BUILD)/ipulua $(BUILD)/ipulua.1 plugins
	@$(BUILD)/ipulua examples/start/mnist.lua

RUN_STAGES = MAKE='$(MAKE)' JOBS=$(JOBS) BUILD='$(BUILD)' CC='$(CC)' spec/support/run.sh
test: deps ## build, lint, run every check program and spec; ends with "N passed, N failed" (JUNIT=file, PENDINGS=none)
	+@$(RUN_STAGES) build lint checks specs
check: ## what takes less than a minute of make test: before a commit
	+@TIER=check $(RUN_STAGES) build lint-lua checks specs
# With seeds that no run had before; what fails prints its own.
nightly: deps ## what takes long: the sanitizers, every seed anew
	+@failed=; for each in $(NIGHTLY); do echo "== $$each"; $(MAKE) --no-print-directory $$each || failed="$$failed $$each"; done; \
	test -z "$$failed" || { echo "failed:$$failed"; exit 1; }
NIGHTLY := walk-check kills nightly-specs new-seeds mutants debug asan tsan compilers arm64
.PHONY: mutants
mutants: all ## plant each mistake of spec/mutants in a copy: the check that the patch names must fail
	+@MAKE='$(MAKE)' JOBS=$(JOBS) BUILD='$(BUILD)' CC='$(CC)' spec/support/mutants.sh
nightly-specs:
	+@TIER=nightly FAILING_EVERY=1 $(RUN_STAGES) build checks specs
SEED ?= $(shell date +%s)
new-seeds: all checks
	@BUILD="$(BUILD)" spec/support/new_seeds.sh $(SEED)

LINTED := $(wildcard lua spec examples docs/source)
lint-lua:
	@said=$$(luacheck -q --no-color $(LINTED)) || { echo "$$said" | grep -v '^$$'; exit 1; }
	@lua5.4 spec/support/unused.lua
	@lua5.4 spec/support/c_files.lua
	@lua5.4 spec/support/twins.lua
	@lua5.4 spec/support/gone_words.lua
	@lua5.4 spec/support/sentences.lua
# Of the objects: what a file offers to others, and nobody takes.
lint-symbols: $(OBJECTS) $(API_OBJECTS) $(LUA_OBJECTS) $(CLI_OBJECTS)
	@lua5.4 spec/support/unreferenced.lua $^
	@lua5.4 spec/support/kernel_symbols.lua $(filter $(BUILD)/kernels/%,$^)
# C as .clang-format wants it. Tables may be fenced ("clang-format off"): one line counts the fences by file, FENCES=yes lists each.
FORMATTED = $(shell find $(wildcard src spec examples docs) -name '*.[ch]')
CLANG_FORMAT := clang-format-19
FENCES ?=
lint-format:
	@command -v $(CLANG_FORMAT) >/dev/null || { echo "lint: $(CLANG_FORMAT) is missing (make deps installs it); the formatting of C isn't checked"; exit 1; }
	@$(CLANG_FORMAT) --dry-run -Werror $(FORMATTED)
	@if test -n "$(FENCES)"; then grep -n 'clang-format off' $(FORMATTED); \
	else echo "tables fenced from clang-format:" $$(grep -c 'clang-format off' $(FORMATTED) | sed -n '/:0$$/d; s/:1$$//; s/:/ /; p' | sed 's/ \(.*\)/ (\1)/'); fi
format: ## format all C, with clang-format 19
	@$(CLANG_FORMAT) -i $(FORMATTED)

# Each in a build folder of its own; what fails says which it was.
with_each_compiler = for each in $(wildcard $(foreach c,$(COMPILERS),$(or $(shell command -v $(c)),none))); do \
	  name=$${each\#\#*/}; $(SUBMAKE) BUILD=build-lint-$$name CC=$$name -k CFLAGS='$(1) -Werror' lint-objects || \
	  { echo "FAIL $$name with $(1) -Werror"; good=1; }; $(2) done;
COMPILERS := $(foreach v,12 13 14,gcc-$(v)) $(foreach v,14 15 16 17 18 19,clang-$(v))
.PHONY: compilers deps-compilers
lint: ## luacheck, functions of Lua and C that nobody calls, how files of C hang together, code that stands twice; C's formatting (FENCES=yes lists what is fenced from it); compile with each of gcc 12 to 14 and clang 14 to 19 that is there, warnings being errors
	+@good=0; $(SUBMAKE) lint-lua || good=1; $(SUBMAKE) lint-symbols || good=1; $(SUBMAKE) lint-format || good=1; $(call with_each_compiler,-O1,) exit $$good
compilers: ## compile with each of them that is there, optimised, warnings being errors
	+@good=0; $(call with_each_compiler,-O2,test $$good = 1 || echo "$$name: no warnings";) exit $$good
deps-compilers: ## install those that this Debian has
	$(call install_packages,$$(apt-cache pkgnames | grep -xE '$(subst $(space),|,$(COMPILERS))'))

lint-objects: $(OBJECTS) $(API_OBJECTS) $(LUA_OBJECTS) $(CLI_OBJECTS) $(PLUGINS)

# The specs under the sanitizers, in build folders of their own.
SANITIZE_asan := -O1 -g -DIPULUA_VERIFY -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
SANITIZE_tsan := -O1 -g -DIPULUA_VERIFY -fno-omit-frame-pointer -fsanitize=thread
asan tsan:
	+@MAKE='$(MAKE)' JOBS=$(JOBS) BUILD=build-$@ CC='$(CC)' CFLAGS='$(SANITIZE_$@)' spec/support/run.sh build checks specs
debug: ## the specs with graphs and programs verified after every pass
	+@MAKE='$(MAKE)' JOBS=$(JOBS) BUILD=build-debug CC='$(CC)' CFLAGS='-O1 -g -DIPULUA_VERIFY' spec/support/run.sh build checks specs
asan: ## the specs with address and undefined-behaviour checks
tsan: ## the specs with data-race checks

# Which files are open when the first kernel runs, and when a pipeline's first op is priced: by a build that tells of each function.
TRACED := -O1 -g1 -finstrument-functions -finstrument-functions-exclude-file-list=.h
WALK = LD_PRELOAD=$(CURDIR)/build-walk/walk.so build-walk/ipulua --threads 1 spec/support/walk.lua
.PHONY: walk walk-check walk-build
walk-build:
	+@$(SUBMAKE) BUILD=build-walk CFLAGS='$(TRACED)' build-walk/ipulua
	@$(CC) -shared -fPIC -O1 $(LUA_CFLAGS) spec/support/walk.c -o build-walk/walk.so
walk: walk-build ## trace model:fit to a kernel, and a pipeline to its price, into docs/architecture.md
	@$(WALK) --write
walk-check: walk-build
	@$(WALK) --check

# Random programs and calls; what fails is shrunk and printed as a script: make fuzz SECONDS=600 FUZZ_SEED=1
SECONDS ?= 60
FUZZ_SEED ?= $(shell date +%s)000
.PHONY: fuzz
fuzz: all ## random programs of all ops in all forms, and beside NumPy (SECONDS=60, FUZZ_SEED=)
	@$(BUILD)/ipulua spec/support/fuzz/main.lua $(SECONDS) $(FUZZ_SEED)

# The trainings of spec/support/soak.lua, or one, for so long each: make soak MINUTES=1 KIND=eager
# malloc counts what lies in its threads' caches as given; they fill up for hours, so there are none.
MINUTES ?= 10
KIND ?= eager compiled pipeline replicas datasets prompt models functions
.PHONY: soak
soak: all ## six kinds of training that go on, models and functions made 10,000 times: memory and time by the step (MINUTES=10, KIND=)
	@for each in $(KIND); do GLIBC_TUNABLES=glibc.malloc.tcache_count=0 $(BUILD)/ipulua spec/support/soak.lua $(MINUTES) $$each || exit; done

# gcov's counts of the checks, the specs and a minute of fuzzing, in a build folder of their own.
COVERED := -O1 -g --coverage -fprofile-update=atomic -DIPULUA_APART
.PHONY: coverage
coverage: all ## lines and branches by folder that the checks and specs run; thresholds and their two sides
	@find build-coverage -name '*.gcda' -delete 2>/dev/null; true
	+@MAKE='$(MAKE)' JOBS=$(JOBS) BUILD=build-coverage CC='$(CC)' CFLAGS='$(COVERED)' FAILING_EVERY=1 spec/support/run.sh build checks specs || \
	  echo 'something failed: counts are of what ran'
	@build-coverage/ipulua spec/support/fuzz/main.lua $(SECONDS) $(FUZZ_SEED) || true
	@$(BUILD)/ipulua spec/support/coverage.lua build-coverage

# Every case of spec/processes under each MPI that is installed, in place of the stub that make test runs them with.
.PHONY: processes kills
processes: all checks ## the specs of several processes under each MPI that is installed
	+@MAKE='$(MAKE)' JOBS=$(JOBS) BUILD='$(BUILD)' CC='$(CC)' spec/support/processes.sh
kills: all checks ## 200 times a process of a training is killed: nothing hangs, files are whole, training goes on to the same bits
	@IPULUA=$(BUILD)/ipulua $(BUILD)/ipulua spec/support/kills.lua $(or $(KILLS),200)

.PHONY: built parts arm64 fresh fresh-demo fresh-all
built: ## build everything, with the check programs
	+@$(SUBMAKE) all checks
parts: ## the specs of each optional part where it is not there
	+@MAKE='$(MAKE)' JOBS=$(JOBS) BUILD=$(BUILD) CC='$(CC)' spec/support/parts.sh

arm64: ## cross-build for 64-bit ARM; check programs and specs of tensors, ops, engine, data and conformance by qemu
	+@MAKE='$(MAKE)' JOBS=$(JOBS) spec/support/arm64.sh

# In new Debian systems, made by root with mmdebstrap: bookworm is Debian 12, trixie Debian 13.
SUITE ?= bookworm
COMMAND ?= make demo
fresh: ## run COMMAND='make demo' in a clone in a fresh root of SUITE=bookworm (FRESH_USER=name: not as root, with sudo)
	@spec/support/fresh_root.sh '$(SUITE)' '$(COMMAND)'
fresh-demo: ## make demo in fresh roots of Debian 12 and 13
	@spec/support/fresh.sh demo
fresh-all: ## demo, test, packages, rock and tarball in fresh roots of Debian 12 and 13, as root and with sudo (SUITES=, USERS=: only those)
	@spec/support/fresh.sh all

.PHONY: docs
docs: all ## write the references (docs/reference/ops, keras and api with their indices) and docs/library for LuaLS
	@$(BUILD)/ipulua docs/source/make_ops.lua
	@$(BUILD)/ipulua docs/source/make_keras.lua
	@$(BUILD)/ipulua docs/source/make_api.lua

.PHONY: pictures
pictures: all ## draw the pictures of README and docs anew (chromium for the report)
	@$(BUILD)/ipulua docs/source/make_pictures.lua

# The cases are elsewhere: JSON lines under DIR.
.PHONY: conformance
conformance: all ## run the conformance cases under DIR=
	@test -n '$(DIR)' || { echo 'usage: make conformance DIR=folder'; exit 2; }
	@$(BUILD)/ipulua spec/support/conformance.lua '$(DIR)'

# Where things go, under DESTDIR. Below /usr, Lua's own folders are asked for: the library finds the Lua module below its own.
LUA_VARIABLE = $(if $(filter /usr,$(PREFIX)),$(shell $(PKG_CONFIG) --variable=$(1) lua5.4 2>/dev/null))
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(or $(call LUA_VARIABLE,libdir),$(PREFIX)/lib)
INCLUDEDIR ?= $(PREFIX)/include
DATADIR ?= $(PREFIX)/share
MANDIR ?= $(DATADIR)/man
LUA_LMOD ?= $(or $(call LUA_VARIABLE,INSTALL_LMOD),$(DATADIR)/lua/5.4)
LUA_CMOD ?= $(or $(call LUA_VARIABLE,INSTALL_CMOD),$(PREFIX)/lib/lua/5.4)
LUAJIT_LMOD ?= $(DATADIR)/lua/5.1
COMPLETIONS ?= $(DATADIR)/bash-completion/completions
VERSION := $(shell sed -n 's/.*IPULUA_VERSION "\(.*\)"/\1/p' src/base/version.h)
PACKAGING := src/packaging
# "gc2, gc200, …", as the table of chips has them
CHIPS = $(shell awk -F'"' '/^  X.[0-9], / { printf "%s%s", comma, tolower($$2); comma = ", " }' src/target/chips.h)
FILL_IN = sed -e 's|@VERSION@|$(VERSION)|' -e 's|@CHIPS@|$(CHIPS)|' $(foreach v,PREFIX LIBDIR INCLUDEDIR LUA_LMOD LUA_CMOD,-e 's|@$(v)@|$($(v))|')
PUT = install -D -m
LUA_FILES = $(patsubst lua/%,%,$(shell find lua/ipulua -name '*.lua' -o -name '*.html'))

# Of what is built: the packages of the libraries that it opens, as variables of debian/control.
.PHONY: opened
opened:
	@echo libzip:Depends=$(subst .so.,,$(ZIP_FILE))
	@! grep -q libedit $(BUILD)/parts || echo libedit:Depends=$(subst .so.,,$(EDIT_FILE))

.PHONY: install uninstall install-rock rock dist deb
install-rock: all ## install the command and the Lua module only, as luarocks wants them
	$(PUT) 755 $(BUILD)/ipulua '$(DESTDIR)$(BINDIR)/ipulua'
	$(PUT) 755 $(BUILD)/modules/ipulua/core.so '$(DESTDIR)$(LUA_CMOD)/ipulua/core.so'
	for f in $(notdir $(PLUGINS)); do $(PUT) 755 $(BUILD)/modules/ipulua/$$f '$(DESTDIR)$(LUA_CMOD)/ipulua/'$$f || exit; done
	for f in $(filter-out ipulua/ffi%,$(LUA_FILES)); do $(PUT) 644 lua/$$f '$(DESTDIR)$(LUA_LMOD)/'$$f || exit; done

install: install-rock ## install everything under PREFIX
	$(PUT) 755 $(LIBRARY) '$(DESTDIR)$(LIBDIR)/libipulua.so.$(ABI)'
	ln -sf libipulua.so.$(ABI) '$(DESTDIR)$(LIBDIR)/libipulua.so'
	$(PUT) 644 src/ipulua.h '$(DESTDIR)$(INCLUDEDIR)/ipulua.h'
	$(PUT) 644 src/ipulua_op.h '$(DESTDIR)$(INCLUDEDIR)/ipulua_op.h'
	$(PUT) 644 $(BUILD)/luajit/ipulua/ipulua.cdef.h '$(DESTDIR)$(INCLUDEDIR)/ipulua.cdef.h'
	$(PUT) 644 $(BUILD)/luajit/ipulua/cdef.lua '$(DESTDIR)$(LUAJIT_LMOD)/ipulua/cdef.lua'
	for f in ipulua/nearest.lua $(filter ipulua/ffi%,$(LUA_FILES)); do $(PUT) 644 lua/$$f '$(DESTDIR)$(LUAJIT_LMOD)/'$$f || exit; done
	install -d '$(DESTDIR)$(LIBDIR)/pkgconfig' '$(DESTDIR)$(MANDIR)/man1'
	$(FILL_IN) $(PACKAGING)/ipulua.pc.in > '$(DESTDIR)$(LIBDIR)/pkgconfig/ipulua.pc'
	$(FILL_IN) $(PACKAGING)/ipulua.1 > '$(DESTDIR)$(MANDIR)/man1/ipulua.1'
	$(PUT) 644 $(PACKAGING)/ipulua.bash '$(DESTDIR)$(COMPLETIONS)/ipulua'
	for f in ipulua keras; do $(PUT) 644 docs/library/$$f.lua '$(DESTDIR)$(DATADIR)/ipulua/library/'$$f.lua || exit; done

uninstall: ## remove what install put there
	rm -f '$(DESTDIR)$(BINDIR)/ipulua' '$(DESTDIR)$(LIBDIR)/libipulua.so.$(ABI)' '$(DESTDIR)$(LIBDIR)/libipulua.so' \
	  '$(DESTDIR)$(INCLUDEDIR)/ipulua.h' '$(DESTDIR)$(INCLUDEDIR)/ipulua_op.h' '$(DESTDIR)$(INCLUDEDIR)/ipulua.cdef.h' '$(DESTDIR)$(LIBDIR)/pkgconfig/ipulua.pc' \
	  '$(DESTDIR)$(MANDIR)/man1/ipulua.1' '$(DESTDIR)$(COMPLETIONS)/ipulua'
	rm -rf '$(DESTDIR)$(LUA_LMOD)/ipulua' '$(DESTDIR)$(LUA_CMOD)/ipulua' '$(DESTDIR)$(LUAJIT_LMOD)/ipulua' '$(DESTDIR)$(DATADIR)/ipulua'

# The same commit gives the same bytes.
dist: ## make build/ipulua-VERSION.tar.gz of the last commit
	@mkdir -p $(BUILD)
	git -c safe.directory="*" archive --format=tar --prefix=ipulua-$(VERSION)/ HEAD | gzip -9n > $(BUILD)/ipulua-$(VERSION).tar.gz
	@echo $(BUILD)/ipulua-$(VERSION).tar.gz

rock: ## write the rockspec for luarocks make, into build
	@mkdir -p $(BUILD)
	@$(FILL_IN) $(PACKAGING)/ipulua.rockspec.in > $(BUILD)/ipulua-$(VERSION)-1.rockspec
	@echo $(BUILD)/ipulua-$(VERSION)-1.rockspec

# A source package's folder is made for it. FROM=folder: of what was built there, not anew.
DEBS ?= $(BUILD)/deb
DEB = $(DEBS)/ipulua-$(VERSION)
deb: ## build the Debian packages, into build/deb (DEBS=folder)
	@rm -rf '$(DEBS)' && mkdir -p '$(DEB)'
	@cp -pR Makefile LICENSE README.md src lua docs examples $(DEB) && cp -pR $(PACKAGING)/debian $(DEB)
	@$(FILL_IN) $(PACKAGING)/debian/changelog > $(DEB)/debian/changelog
	@$(if $(FROM),ln -s "$$(cd '$(FROM)' && pwd)" $(DEB)/build)
	cd $(DEB) && $(if $(FROM),BUILD=build) dpkg-buildpackage -us -uc -b
	@ls $(DEBS)/*.deb

.PHONY: clean help
clean: ## remove what was built
	rm -rf $(BUILD) build-lint-* build-debug build-asan build-tsan build-arm64 build-arm64-system build-parts build-walk

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 16
