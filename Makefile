# ipulua: make help lists the targets.
CC ?= gcc
BUILD ?= build
PREFIX ?= /usr/local
CFLAGS ?= -O3 -g
PKG_CONFIG ?= pkg-config

LAYERS := base tensor kernels target graph ops transform program machine engine data
WARNINGS := -std=c11 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
            -Wpointer-arith -Wwrite-strings -Wundef
LUA_CFLAGS = $(shell $(PKG_CONFIG) --cflags lua5.4 2>/dev/null)
LUA_LIBS = $(shell $(PKG_CONFIG) --libs lua5.4 2>/dev/null)
JSON_LIBS = $(shell $(PKG_CONFIG) --libs jansson 2>/dev/null)
EDIT_CFLAGS := $(shell $(PKG_CONFIG) --exists libedit 2>/dev/null && echo -DHAVE_LIBEDIT $$($(PKG_CONFIG) --cflags libedit))
EDIT_LIBS := $(shell $(PKG_CONFIG) --exists libedit 2>/dev/null && $(PKG_CONFIG) --libs libedit)
ALL_CFLAGS = $(WARNINGS) -fPIC -pthread -D_GNU_SOURCE -Isrc -I$(BUILD)/generated -ffp-contract=off -fno-math-errno -fvisibility=hidden $(CFLAGS)
LIBS = $(JSON_LIBS) -lz -lm -ldl -pthread

# One text of kernels, three instruction sets.
KERNEL_ISA_base :=
KERNEL_ISA_avx2 := -mavx2 -mfma -mf16c
KERNEL_ISA_avx512 := -mavx512f -mavx512vl -mavx512bw -mavx512dq -mfma -mf16c -mprefer-vector-width=512
ISAS := base avx2 avx512
ifneq ($(shell uname -m),x86_64)
ISAS := base
endif
KERNEL_SOURCES := $(filter-out src/kernels/select.c,$(wildcard src/kernels/*.c))
SOURCES := $(filter-out $(KERNEL_SOURCES),$(wildcard $(LAYERS:%=src/%/*.c)))
OBJECTS := $(SOURCES:src/%.c=$(BUILD)/%.o) $(foreach isa,$(ISAS),$(KERNEL_SOURCES:src/%.c=$(BUILD)/%.$(isa).o))
LUA_OBJECTS := $(patsubst src/%.c,$(BUILD)/%.o,$(wildcard src/lua/*.c))
CLI_OBJECTS := $(patsubst src/%.c,$(BUILD)/%.o,$(wildcard src/cli/*.c))

.PHONY: all
all: $(BUILD)/ipulua ## build build/ipulua (the default)

$(BUILD)/libipulua.a: $(OBJECTS)
	@rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/ipulua: $(CLI_OBJECTS) $(LUA_OBJECTS) $(BUILD)/libipulua.a
	$(CC) $(CFLAGS) $(LDFLAGS) -rdynamic -o $@ $(CLI_OBJECTS) $(LUA_OBJECTS) $(BUILD)/libipulua.a $(LUA_LIBS) $(EDIT_LIBS) $(LIBS)

$(BUILD)/lua/%.o: src/lua/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(LUA_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/cli/%.o: src/cli/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(LUA_CFLAGS) $(EDIT_CFLAGS) -MMD -MP -c -o $@ $<

define kernel_rule
$(BUILD)/kernels/%.$(1).o: src/kernels/%.c
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_CFLAGS) -fno-trapping-math $$(KERNEL_ISA_$(1)) -DKERNEL_ISA=$(1) -MMD -MP -c -o $$@ $$<
endef
$(foreach isa,$(ISAS),$(eval $(call kernel_rule,$(isa))))

# Checks and speeds of the kernels alone.
KERNEL_OBJECTS := $(BUILD)/kernels/select.o $(foreach isa,$(ISAS),$(KERNEL_SOURCES:src/%.c=$(BUILD)/%.$(isa).o))
$(BUILD)/kernels_%: spec/support/kernels_%.c $(KERNEL_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -o $@ $< $(KERNEL_OBJECTS) -lm -pthread

# The files of src/ops each export rows named ops_<file>; the registry includes this list.
$(BUILD)/generated/ops.inc: src/ops $(wildcard src/ops/*.c)
	@mkdir -p $(@D)
	@for f in $(filter-out registry,$(basename $(notdir $(wildcard src/ops/*.c)))); do \
	  grep -q "const OpDef ops_$$f\[\]" src/ops/$$f.c && echo "OPS($$f)"; done > $@; true
$(BUILD)/ops/registry.o: $(BUILD)/generated/ops.inc

$(BUILD)/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)

.PHONY: clean help
clean: ## remove what was built
	rm -rf $(BUILD) build-asan build-tsan

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 16
