
    // What each engine works on, as numbers and as text, and the waves from one cycle to another.
    import "DPI-C" function void tilewright_note(input bit running, input int started, input int retired);
    import "DPI-C" function void tilewright_shown(
        input int engine, output int number, output bit [191:0] mnemonic, output bit [319:0] layer);
    import "DPI-C" function int tilewright_waves(input longint cycle);

    longint cycle = 0;
${signals}

    always @(posedge clock) begin
        longint next_cycle;
        next_cycle = resets ? 0 : cycle + longint'(running);
        tilewright_note(running, int'(started), int'(retired));
${show}
        cycle <= next_cycle;
        case (tilewright_waves(next_cycle))
            1: begin
                $$dumpfile("waves.vcd");
                $$dumpvars;
            end
            2: $$c("vlSymsp->_traceDumpClose();");  // $$dumpoff does nothing here
            default: ;
        endcase
    end
