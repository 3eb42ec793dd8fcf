#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Seeds of fuzz_plan. usage: fuzz_plan.sh TRACES SEEDS
set -eu
mkdir -p "$2"
cd "$2"
head='id,source,model,layers,d_model,heads,kv_heads,d_ff,gated,vocab,tied,seq,gpu,gpus,precision,gbs,mbs,dp,tp,pp,recompute,shard,step_s,year,mem_gb,fabric'
printf '\000%s\na,"one, ""s""",Llama-7B,32,4096,32,32,11008,1,32000,0,2048,A100-SXM-80,8,bf16,64,2,8,1,1,full,zero3,8.0,2024,OOM,8x400G/node\n' "$head" > table
printf '\000%s\na,s,Llama-7B,32,4096,,,11008,1,32000,0,2048,H100,8,bf16,64,,,,,,,8.0,2024,,\nb,s,GPT-1B,24,2048,16,,8192,0,50304,1,2048,H100,8,fp16,64,2,8,1,1,none,zero1,4,2021,47,NVLink\n' "$head" > chosen
printf '\001{"model_type": "llama", "hidden_act": "silu", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 9}' > config
printf '\002layers=2,width=64,heads=4,vocab=100,experts=8,active=2' > dimensions
printf '\003# x\nlink 0.5\nflash 0.4\n' > constants
