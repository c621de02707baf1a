    // AXI port ${port}.
${wires}
    bit rvalid${n}, rlast${n}, rerror${n}, bvalid${n}, berror${n};
    bit rvalid_next${n}, rlast_next${n}, rerror_next${n}, bvalid_next${n}, berror_next${n};
    bit [${id_high}:0] rid${n};
    int rid_next${n};
    bit [${data_high}:0] rdata${n}, rdata_next${n};
    always @(posedge clock) begin
        tilewright_cycle(${port}, resets, running, int'(started), int'(retired),
            rready${n}, arvalid${n}, int'(arid${n}), araddr${n}, int'(arlen${n}), awvalid${n}, awaddr${n},
            wvalid${n}, wlast${n}, wdata${n}, wstrb${n},
            rvalid_next${n}, rid_next${n}, rlast_next${n}, rerror_next${n}, rdata_next${n}, bvalid_next${n}, berror_next${n});
        rvalid${n} <= rvalid_next${n};
        rid${n} <= rid_next${n}[${id_high}:0];
        rlast${n} <= rlast_next${n};
        rerror${n} <= rerror_next${n};
        rdata${n} <= rdata_next${n};
        bvalid${n} <= bvalid_next${n};
        berror${n} <= berror_next${n};
    end
