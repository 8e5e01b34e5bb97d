(* Page 22, "The KV cache" (notebooks/what_came_after/cache.ipynb).
   Theorem 22.1, Proposition 22.3.
   F is any ordered field. The S states are 'I_S, and the questions are the rows of P. *)
From mathcomp Require Import all_ssreflect all_algebra.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* A mean E over coins o, whatever their law. All that is used of it: what is at most c for all coins
   is at most c on average. *)
Definition keeps_bounds (F : realFieldType) (Om : Type) (E : (Om -> F) -> F) :=
  forall X c, (forall o, X o <= c) -> E X <= c.

Section State.
(* q questions, n tokens; f of them, the tokens free 0, free 1, ..., have free values *)
Variables (F : realFieldType) (q n f b S : nat) (P : 'M[F]_(q, n)).
Hypothesis P_ge0 : forall i j, 0 <= P i j.
Hypothesis P_rows : forall i, \sum_j P i j = 1.
Variables (free : 'I_f -> 'I_n) (known : 'I_n -> F).
Hypothesis free_inj : injective free.
Hypothesis b_gt0 : (0 < b)%N.
Local Notation list := {ffun 'I_f -> 'I_(2 ^ b)}.

(* number k of the 2^b equally spaced numbers from -1 to 1 *)
Definition grid (k : nat) : F := 2%:R * k%:R / (2 ^ b - 1)%:R - 1.
Definition value (v : list) j := if [pick k | free k == j] is Some k then grid (v k) else known j.
Definition right_answer v i := \sum_j P i j * value v j.
(* the lists that get all answers with errors below eps, and up to eps *)
Definition well (state : list -> 'I_S) (answer : 'I_S -> 'I_q -> F) eps :=
  [set v | [forall i, `|answer (state v) i - right_answer v i| < eps]].
Definition well_upto (state : list -> 'I_S) (answer : 'I_S -> 'I_q -> F) eps :=
  [set v | [forall i, `|answer (state v) i - right_answer v i| <= eps]].

Let N : F := (2 ^ b - 1)%:R.
Lemma N_gt0 : 0 < N.
Proof. by rewrite ltr0n subn_gt0 -{1}(expn0 2) ltn_exp2l. Qed.
Lemma value_free v k : value v (free k) = grid (v k).
Proof. by rewrite /value; case: pickP => [k' /eqP/free_inj ->|/(_ k)] //; rewrite eqxx. Qed.
Lemma gridB k k' : grid k - grid k' = 2%:R / N * (k%:R - k'%:R).
Proof. by rewrite /grid -/N opprB addrA subrK -mulrBl -mulrBr mulrAC. Qed.
Lemma right_answerB v v' i :
  right_answer v i - right_answer v' i = \sum_j P i j * (value v j - value v' j).
Proof. by rewrite -sumrB; apply: eq_bigr => j _; rewrite mulrBr. Qed.

(* Steps 1 and 2: lists that are answered that well and leave one state are one list. e is at most
   the largest entry in the column of each free token. *)
Lemma one_drawer e state answer : (forall k, exists i, e <= P i (free k)) ->
  {in well state answer ((2%:R * e - 1) / N) &, injective state}.
Proof.
move=> sharp v v'; rewrite !inE => /forallP wv /forallP wv' same.
apply/eqP; apply: contraT => ne; pose u j := value v j - value v' j.
have [k0 k0P] : exists k, v k != v' k.
  by apply/existsP; rewrite -negb_forall; apply: contra ne => /forallP eq; apply/eqP/ffunP => k;
    apply/eqP.
have step k : v k != v' k -> 2%:R / N <= `|u (free k)|.
  move=> vk; rewrite /u !value_free gridB normrM ger0_norm ?divr_ge0 ?ler0n // ler_pemulr //.
    by rewrite divr_ge0 ?ler0n.
  have [lt|lt|/val_inj e'] := ltngtP (v k) (v' k); last by rewrite e' eqxx in vk.
    by rewrite distrC -natrB ?(ltnW lt) // normr_nat ler1n subn_gt0.
  by rewrite -natrB ?(ltnW lt) // normr_nat ler1n subn_gt0.
have pos : 0 < 2%:R / N by rewrite divr_gt0 ?N_gt0 ?ltr0n.
(* j is a token where they differ most *)
have [j jmax] : exists j, forall l, `|u l| <= `|u j|.
  by case: (@arg_maxP _ _ _ (free k0) predT (fun l => `|u l|) isT) => j _ max; exists j => l; exact: max.
have [k jE] : exists k, j = free k.
  have : u j != 0 by rewrite -normr_gt0 (lt_le_trans pos) // (le_trans (step _ k0P)) ?jmax.
  rewrite /u /value; case: pickP => [k /eqP <- _|_]; first by exists k.
  by rewrite subrr eqxx.
have big : 2%:R / N <= `|u j| by rewrite (le_trans (step _ k0P)) ?jmax.
have [i ei] := sharp k; have := wv i; have := wv' i; rewrite -same -jE in ei *.
set a := answer _ _ => w' w.
have rest : \sum_(l | l != j) P i l = 1 - P i j by rewrite -(P_rows i) [in RHS](bigD1 j) //= addrC addKr.
(* (22.2) *)
have tug : (2%:R * P i j - 1) * `|u j| <= `|right_answer v i - right_answer v' i|.
  rewrite right_answerB (bigD1 j) //= -/(u j); apply: le_trans (ler_sub_norm_add _ _).
  rewrite normrM ger0_norm // mulrBl mul1r [2%:R * _]mulr_natl mulr2n mulrDl -addrA ler_add2l.
  rewrite ler_oppr opprB; apply: le_trans (ler_norm_sum _ _ _) _.
  rewrite -[X in _ <= X - _]mul1r -mulrBl -rest mulr_suml; apply: ler_sum => l _.
  by rewrite normrM ger0_norm ?ler_wpmul2l ?jmax.
have two : `|right_answer v i - right_answer v' i| < 2%:R * ((2%:R * e - 1) / N).
  have -> : right_answer v i - right_answer v' i = (a - right_answer v' i) - (a - right_answer v i).
    by rewrite [RHS]addrC opprB addrA subrK.
  by rewrite mulr_natl mulr2n (le_lt_trans (ler_norm_sub _ _)) ?ltr_add.
have e1 : 0 < 2%:R * e - 1.
  have : 0 < (2%:R * e - 1) / N by apply: le_lt_trans w; rewrite normr_ge0.
  by rewrite pmulr_lgt0 ?invr_gt0 ?N_gt0.
have := le_lt_trans tug two; rewrite [X in _ < X]mulrCA ltNge => /negP[].
apply: ler_pmul => //; rewrite ?(ltW e1) ?(ltW pos) //.
by rewrite ler_add2r ler_pmul2l ?ltr0n.
Qed.

(* Theorem 22.1 (What a state must hold). At most S of the lists get all answers with errors below
   (2 e - 1) / (2^b - 1); with coins o, at most S on average. *)
Theorem must_hold e state answer : (forall k, exists i, e <= P i (free k)) ->
  (#|well state answer ((2%:R * e - 1) / (2 ^ b - 1)%:R)| <= S)%N.
Proof.
move=> sharp; rewrite -(card_in_imset (@one_drawer e state answer sharp)).
by apply: leq_trans (max_card _) _; rewrite card_ord.
Qed.
Theorem state_with_coins (Om : Type) (E : (Om -> F) -> F) e state answer : keeps_bounds E ->
  (forall k, exists i, e <= P i (free k)) ->
  E (fun o => #|well (state o) (answer o) ((2%:R * e - 1) / (2 ^ b - 1)%:R)|%:R) <= S%:R.
Proof.
by move=> mean sharp; apply: mean => o; rewrite ler_nat must_hold.
Qed.
End State.

(* The hypotheses on P hold, with e = 1, where each token has a question that reads it alone. *)
Example alone (F : realFieldType) n (P := 1%:M : 'M[F]_n) : (forall i j, 0 <= P i j) /\
  (forall i, \sum_j P i j = 1) /\ forall k, exists i, 1 <= P i k.
Proof.
split=> [i j|]; first by rewrite mxE ler0n.
split=> [i|k]; last by exists k; rewrite mxE eqxx.
rewrite (bigD1 i) //= big1 ?addr0 => [|j ji]; first by rewrite mxE eqxx.
by rewrite mxE eq_sym (negbTE ji).
Qed.

(* For e_f = 1, where (22.1) is 1 / (2^b - 1), no larger error is forced: with fewer than 2^(f b)
   states some rules answer more than S lists with errors of at most 1 / (2^b - 1). *)
Theorem no_larger (F : realFieldType) q n f b S (P : 'M[F]_(q, n)) (free : 'I_f -> 'I_n) known :
  (forall i j, 0 <= P i j) -> (forall i, \sum_j P i j = 1) -> injective free ->
  (0 < S < 2 ^ (f * b))%N ->
  exists state answer, (S < #|@well_upto F q n f b S P free known state answer (2 ^ b - 1)%:R^-1|)%N.
Proof.
move=> P0 P1 inj /andP[S0 SS].
have [f0 b0] : (0 < f)%N /\ (0 < b)%N.
  by split; rewrite lt0n; apply: contraTneq SS => ->; rewrite ?mul0n ?muln0 -leqNgt.
case: S S0 SS => // S _ SS.
have two : (1 < 2 ^ b)%N by rewrite -{1}(expn0 2) ltn_exp2l.
pose list := {ffun 'I_f -> 'I_(2 ^ b)}; pose k0 : 'I_f := Ordinal f0.
pose v0 : list := [ffun=> Ordinal (ltnW two)].
pose v1 : list := [ffun k => if k == k0 then Ordinal two else Ordinal (ltnW two)].
have v01 : v1 != v0 by apply/eqP => /ffunP/(_ k0)/(congr1 val); rewrite !ffunE eqxx.
(* all lists: the first two share state 0, the next S have states of their own *)
pose rest := [seq v <- enum {: list} | (v != v0) && (v != v1)]; pose all := [:: v0, v1 & rest].
have u_all : uniq all.
  by rewrite /= !inE !mem_filter !eqxx /= andbF eq_sym (negbTE v01) filter_uniq ?enum_uniq.
have in_all v : v \in all.
  by rewrite !inE mem_filter mem_enum andbT -negb_or orbA orbN.
have s_all : size all = (2 ^ (f * b))%N.
  rewrite -(card_uniqP u_all) (eq_card (B := {: list})) => [|v]; last by rewrite in_all.
  by rewrite card_ffun !card_ord mulnC expnM.
pose R (v : list) i := right_answer P free known v i.
pose state v : 'I_S.+1 := inord (index v all).-1.
pose answer (s : 'I_S.+1) i :=
  2%:R^-1 * (R (nth v0 all (if (s : nat) == 0%N then 0%N else s.+1)) i + R (nth v0 all s.+1) i).
have half x : 2%:R^-1 * (x + x) = x :> F.
  by rewrite -mulr2n -[x *+ 2]mulr_natl mulrA mulVf ?mul1r ?pnatr_eq0.
exists state, answer.
have mid x y : 2%:R^-1 * (x + y) - x = 2%:R^-1 * (y - x) :> F.
  by rewrite -[X in _ - X]half -mulrBr opprD addrACA subrr add0r addrC.
have step i : `|2%:R^-1 * (R v1 i - R v0 i)| <= (2 ^ b - 1)%:R^-1.
  have P_le : P i (free k0) <= 1 by rewrite -(P1 i) (bigD1 (free k0)) //= ler_addl sumr_ge0.
  rewrite right_answerB (bigD1 (free k0)) //= big1 ?addr0 => [|j jk].
    rewrite !value_free // gridB !ffunE eqxx subr0 mulr1 mulrCA mulKf ?pnatr_eq0 //.
    by rewrite normrM !ger0_norm ?invr_ge0 ?ler0n // ler_pimull ?invr_ge0 ?ler0n.
  rewrite /value; case: pickP => [k /eqP kj|_]; last by rewrite subrr mulr0.
  by rewrite !ffunE (_ : k == k0 = false) ?subrr ?mulr0 //; apply: contraNF jk => /eqP <-; rewrite kj.
have /subset_leq_card : take S.+2 all \subset well_upto P free known state answer (2 ^ b - 1)%:R^-1.
  apply/subsetP => v vin; rewrite inE; apply/forallP => i; rewrite -/(R v i).
  have := index_ltn vin; have := nth_index v0 (in_all v).
  rewrite /answer /state; case: (index v all) => [|[|k]] <- kS; rewrite inordK //=.
  - by rewrite mid.
  - by rewrite [R v0 i + _]addrC mid -normrN -mulrN opprB.
  by rewrite half subrr normr0 invr_ge0 ler0n.
by rewrite (card_uniqP (take_uniq _ u_all)) size_takel // s_all.
Qed.

Section Copying.
Variables (n S : nat) (V : finType).
Local Notation text := (n.-tuple V).
(* the texts that are written without an error *)
Definition copied (state : text -> 'I_S) (write : 'I_S -> text) := [set x | write (state x) == x].
Lemma copied_le state write : (#|copied state write| <= S)%N.
Proof.
rewrite -[X in (_ <= X)%N]card_ord -cardsT; apply: leq_trans (leq_imset_card write _).
apply: subset_leq_card; apply/subsetP => x; rewrite inE => /eqP <-; exact: imset_f.
Qed.
(* Proposition 22.3 (Copying). The share of all texts that are written without an error is at most
   S / |V|^n; so it is on average over choices o; and some states attain it. *)
Definition share (F : realFieldType) state write : F := #|copied state write|%:R / (#|V| ^ n)%:R.
Theorem copying (F : realFieldType) state write : share F state write <= S%:R / (#|V| ^ n)%:R.
Proof. by rewrite ler_wpmul2r ?invr_ge0 ?ler0n // ler_nat copied_le. Qed.
Theorem copying_on_average (F : realFieldType) (Om : Type) (E : (Om -> F) -> F) state write :
  keeps_bounds E -> E (fun o => share F (state o) (write o)) <= S%:R / (#|V| ^ n)%:R.
Proof. by move=> mean; apply: mean => o; apply: copying. Qed.
End Copying.
Theorem copying_attained (F : realFieldType) n S (V : finType) : (0 < S <= #|V| ^ n)%N ->
  exists (state : n.-tuple V -> 'I_S) write, share F state write = S%:R / (#|V| ^ n)%:R.
Proof.
case: S => // S /andP[_]; rewrite -{1}card_tuple => le.
pose write (s : 'I_S.+1) := enum_val (widen_ord le s).
pose state (x : n.-tuple V) : 'I_S.+1 := inord (enum_rank x); exists state, write; congr (_%:R / _).
have inj : injective write by move=> s s' /enum_val_inj/(congr1 val)/= /val_inj.
rewrite -[RHS]card_ord -(card_imset predT inj); apply: eq_card => x; rewrite inE.
apply/eqP/imsetP => [<-|[s _ ->]]; first by exists (state x).
by congr write; rewrite /state enum_valK inord_val.
Qed.

(* ---- Instances ---- *)
(* One question about one free token of one bit, with all its weight on that token. *)
Section Met.
Variable F : realFieldType.
Let P : 'M[F]_1 := 1%:M.
Let known (_ : 'I_1) : F := 0.
Let P0 i j : 0 <= P i j. Proof. by rewrite mxE ler0n. Qed.
Let P1 i : \sum_j P i j = 1. Proof. by rewrite big_ord1 mxE !ord1. Qed.
Let all_seen (k : 'I_1) : exists i, 1 <= P i k.
Proof. by exists k; rewrite mxE eqxx. Qed.
Example must_hold_met state (answer : 'I_2 -> 'I_1 -> F) :
  (#|well P (b := 1) id known state answer ((2%:R * 1 - 1) / (2 ^ 1 - 1)%:R)| <= 2)%N.
Proof. by apply: must_hold all_seen; [exact: P0 | exact: P1 | exact: inj_id |]. Qed.
Example state_with_coins_met (state : bool -> _ -> 'I_2) (answer : bool -> 'I_2 -> 'I_1 -> F)
  (E := fun X : bool -> F => X true) :
  E (fun o => #|well P (b := 1) id known (state o) (answer o) ((2%:R * 1 - 1) / (2 ^ 1 - 1)%:R)|%:R)
    <= 2%:R.
Proof.
apply: (@state_with_coins F 1 1 1 1 2 P P0 P1 id known (@inj_id _) isT bool E) => //.
by move=> X c; apply.
Qed.
Example no_larger_met : exists (state : _ -> 'I_1) answer,
  (1 < #|well_upto P (b := 1) id known state answer (2 ^ 1 - 1)%:R^-1|)%N.
Proof. by apply: no_larger; [exact: P0 | exact: P1 | exact: inj_id |]. Qed.
End Met.
(* Two words of one letter out of two, and one state: one of the two is copied. *)
Example copying_attained_met (F : realFieldType) : exists (state : 1.-tuple bool -> 'I_1) write,
  share F state write = 1%:R / (2 ^ 1)%:R.
Proof. by have := @copying_attained F 1 1 [finType of bool]; rewrite card_bool; apply. Qed.
Example copying_on_average_met (F : realFieldType) (state : bool -> 1.-tuple bool -> 'I_1) write
  (E := fun X : bool -> F => X true) :
  E (fun o => share F (state o) (write o)) <= 1%:R / (2 ^ 1)%:R.
Proof.
have := @copying_on_average 1 1 [finType of bool] F bool E state write.
by rewrite card_bool; apply => X c; apply.
Qed.
